"""Attention: a block of query rows meets all keys, in scratch, and never as a matrix of scores in memory.

Everything is done on transposed matrices: the block's queries lie side by side in the lanes. So keys and
values are read where they lie, by broadcasts; the softmax runs down columns, without a sum across lanes;
and the scores are in the very order in which the second product reads them.

Pointers: out, q, k, v, then the epilogue's operands. Args: see ARGS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.bfloat import join_bf16, round_and_join
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.math_exp import exp
from treadle.codegen.emit.memory import lane_mask, load, store
from treadle.codegen.emit.ranges import coordinates
from treadle.codegen.emit.tiles import move_edge, move_tile, tile_size
from treadle.codegen.emit.vectors import constant, like
from treadle.codegen.kernels.fold import Fold
from treadle.codegen.kernels.gemm_block import Factors, RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.codegen.kernels.softmax import divisor, finite
from treadle.dtypes import bf16
from treadle.plan.kernel_spec import KernelSpec

ARGS = (
    "queries",
    "keys",
    "depth",  # of q and k
    "width",  # of v
    "key_blocks",
    "large_key_blocks",  # the first ones have key_rows[0] keys, the others key_rows[-1]
    "width_blocks",
    "large_width_blocks",
    "query_blocks",  # of one matrix of the batch
    "units",  # query blocks of all matrices
    "units_per_chunk",
    "q_row",  # strides, in elements
    "q_depth",
    "k_row",
    "k_depth",
    "v_row",
    "v_column",
    "out_row",
)
"""The int64 arguments in order; then the stride along keys of each epilogue operand; then the sizes of the
batch dimensions, and for q, k, v, out and each epilogue operand its strides along them."""


@dataclass(frozen=True, slots=True)
class Block:
    """Query rows done together: the first, how many, and the vectors that hold them."""

    first: Index
    queries: Index
    vectors: int


@dataclass(frozen=True, slots=True)
class Matrices:
    """Where one matrix of the batch begins in each operand."""

    q: ir.Value
    k: ir.Value
    v: ir.Value
    out: ir.Value
    epilogue: list[Operand]


def emit_attention(k: Kernel, spec: KernelSpec) -> None:
    """out = softmax(epilogue(q @ k.T)) @ v, a unit being a block of query rows of one matrix of the batch.

    Params: dtype, pairs (q, k and v are bf16 and multiplied in pairs; dtype is f32, the depth and strides of q and k count
    pairs, those of v elements), vectors (of a block), edge (of the last block if it is not full, else 0), ragged (its last
    vector is not full), key_rows, width_rows (the one or two heights of register blocks), q_source (of queries:
    see `copy_panel`), whole_tiles (queries and width are multiples of the lanes), unit_depth (of k), unit_column
    (of v), whole_depth, whole_keys (multiples of a turn of the products), batch_rank, safe (queries whose scores are
    all -inf get 0), epilogue, kinds (of its operands, transposed).
    Scratch: queries [depth, lanes], scores [keys, lanes], result [width, lanes] of one block; with pairs, those of v.
    """
    attention = Attention(k, spec)
    arg, lanes = attention.arg, attention.lanes
    whole = spec["vectors"] * lanes
    with loop(k, *k.chunk_range(arg["units"], arg["units_per_chunk"]), name="unit") as unit:
        matrices = attention.matrices(k.div(unit.index, arg["query_blocks"]))
        first = k.mul(k.rem(unit.index, arg["query_blocks"]), whole)
        queries = k.sub(arg["queries"], first)
        if not spec["edge"]:
            attention.block(matrices, Block(first, whole, spec["vectors"]))
        else:
            with either(k, k.less(queries, whole)) as (partial, full):
                with partial:
                    attention.block(matrices, Block(first, queries, spec["edge"]))
                with full:
                    attention.block(matrices, Block(first, whole, spec["vectors"]))


class Attention:
    """Emits one attention kernel."""

    def __init__(self, k: Kernel, spec: KernelSpec) -> None:
        self.k = k
        self.spec = spec
        self.dtype = spec["dtype"]
        self.lanes = k.target.lanes(self.dtype)
        self.epilogue = Epilogue(k, spec)
        self.arg: dict[str, Index] = {name: k.arg(number) for number, name in enumerate(ARGS)}
        if spec["unit_depth"]:
            self.arg["k_depth"] = 1
        if spec["unit_column"]:
            self.arg["v_column"] = 1

    def matrices(self, batch: Index) -> Matrices:
        """The operands of matrix `batch`."""
        k, kinds, rank = self.k, self.spec["kinds"], self.spec["batch_rank"]
        first = len(ARGS) + len(kinds)
        places = coordinates(k, batch, [k.arg(first + axis) for axis in range(rank)])

        def begin(number: int, pointer: int, dtype: ir.Type) -> ir.Value:
            offset: Index = 0
            for axis, place in enumerate(places):
                offset = k.add(offset, k.mul(place, k.arg(first + (number + 1) * rank + axis)))
            return k.at(k.pointer(pointer), offset, dtype)

        values = bf16 if self.spec["pairs"] else self.dtype
        kinds_of = ((1, self.dtype), (2, self.dtype), (3, values), (0, self.dtype))
        q, key, v, out = (begin(number, *what) for number, what in enumerate(kinds_of))
        operands = [
            Operand(begin(4 + n, 4 + n, self.epilogue.expr.operands[1 + n]), k.arg(len(ARGS) + n), kind)
            for n, kind in enumerate(kinds)
        ]
        return Matrices(q, key, v, out, operands)

    def block(self, matrices: Matrices, block: Block) -> None:
        """One block of query rows."""
        k, arg, dtype = self.k, self.arg, self.dtype
        width = block.vectors * self.lanes
        panel = k.scratch
        scores = k.at(panel, k.mul(arg["depth"], width), dtype)
        result = k.at(scores, k.mul(arg["keys"], width), dtype)
        q = k.at(matrices.q, k.mul(block.first, arg["q_row"]), dtype)
        strides, sizes = (arg["q_depth"], arg["q_row"]), (arg["depth"], block.queries)
        copy_panel(k, self.spec["q_source"], panel, q, strides, sizes, dtype, width)

        def store_scores(sums: list[ir.Value], row: Index) -> None:
            self._store(sums, scores, row, block.vectors)

        keys = Factors(matrices.k, arg["k_row"], arg["k_depth"], panel, width)
        self._product("key", keys, (arg["depth"], self.spec["whole_depth"]), block.vectors, store_scores)
        tops = self._peaks(matrices.epilogue, block, scores)
        factors = self._power_pairs(tops, scores) if self.spec["pairs"] else self._powers(tops, scores)

        def store_result(sums: list[ir.Value], row: Index) -> None:
            scaled = [k.b.fmul(value, factors[number % block.vectors]) for number, value in enumerate(sums)]
            self._store(scaled, result, row, block.vectors)

        turns = arg["keys"]
        values = Factors(matrices.v, arg["v_column"], arg["v_row"], scores, width)
        if self.spec["pairs"]:
            turns = k.div(turns, 2)
            paired = k.at(result, k.mul(arg["width"], width), dtype)
            self._pair_values(matrices.v, paired, turns)
            values = Factors(paired, 1, arg["width"], scores, width)
        self._product("width", values, (turns, self.spec["whole_keys"]), block.vectors, store_result)
        self._write(matrices.out, result, block)

    def _product(
        self,
        rows: str,
        factors: Factors,
        depth: tuple[Index, bool],
        vectors: int,
        finish: Callable[[list[ir.Value], Index], None],
    ) -> None:
        """All register blocks of a product with as many rows as there are keys, or as v is wide."""
        k, heights, large = self.k, self.spec[f"{rows}_rows"], self.arg[f"large_{rows}_blocks"]

        def emit(height: int, row: Index) -> None:
            left = k.at(factors.a, k.mul(row, factors.a_row), self.dtype)
            here = Factors(left, factors.a_row, factors.a_depth, factors.b, factors.b_depth)
            finish(RegisterBlock(k, self.dtype, height, vectors, pairs=self.spec["pairs"]).product(here, *depth), row)

        with loop(k, 0, large, name=f"{rows}.block") as block:
            emit(heights[0], k.mul(block.index, heights[0]))
        if len(heights) > 1:
            with loop(k, large, self.arg[f"{rows}_blocks"], name=f"{rows}.small") as block:
                emit(heights[1], k.add(k.mul(block.index, heights[1]), large))

    def _store(self, sums: list[ir.Value], target: ir.Value, row: Index, vectors: int) -> None:
        width = vectors * self.lanes
        start = self.k.at(target, self.k.mul(row, width), self.dtype)
        for number, value in enumerate(sums):
            store(self.k, value, start, number * self.lanes, self.dtype)

    def _peaks(self, operands: list[Operand], block: Block, scores: ir.Value) -> list[ir.Value]:
        """The greatest score of each query, after the epilogue has been applied to all of them."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        peak = Fold("peak", dtype)
        masks: list[ir.Value | None] = [None] * block.vectors
        if self.spec["ragged"] and block.vectors == self.spec["edge"]:
            masks[-1] = lane_mask(k, k.sub(block.queries, (block.vectors - 1) * lanes), lanes)
        with loop(k, 0, self.arg["keys"], carry=[peak.neutral(lanes)] * block.vectors, name="peak") as key:
            start = k.at(scores, k.mul(key.index, block.vectors * lanes), dtype)
            found = []
            for v, mask in enumerate(masks):
                value = load(k, start, v * lanes, dtype, lanes)
                if self.epilogue.expr is not None:
                    value = self.epilogue.apply(value, operands, key.index, k.add(block.first, v * lanes), mask)
                    store(k, value, start, v * lanes, dtype)
                found.append(peak.join(k, value, key.carry[v]))
            key.next(*found)
        return [finite(k, top, dtype) for top in key.carry] if self.spec["safe"] else key.carry

    def _powers(self, tops: list[ir.Value], scores: ir.Value) -> list[ir.Value]:
        """Every score becomes exp(score - top); 1 / the sum of each query's."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        with loop(k, 0, self.arg["keys"], carry=[constant(dtype, 0.0, lanes)] * len(tops), name="power") as key:
            start = k.at(scores, k.mul(key.index, len(tops) * lanes), dtype)
            powers = [exp(k, k.b.fsub(load(k, start, v * lanes, dtype, lanes), top)) for v, top in enumerate(tops)]
            for v, power in enumerate(powers):
                store(k, power, start, v * lanes, dtype)
            key.next(*(k.b.fadd(total, power) for total, power in zip(key.carry, powers, strict=True)))
        return self._shares(key.carry)

    def _power_pairs(self, tops: list[ir.Value], scores: ir.Value) -> list[ir.Value]:
        """As `_powers`, but those of two keys become one row of pairs of bf16, at the place of the first half of the rows."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        width = len(tops) * lanes
        with loop(k, 0, self.arg["keys"], 2, carry=[constant(dtype, 0.0, lanes)] * len(tops), name="power") as key:
            start = k.at(scores, k.mul(key.index, width), dtype)
            target = k.at(scores, k.mul(k.div(key.index, 2), width), dtype)
            totals = []
            for v, top in enumerate(tops):
                low, high = (
                    exp(k, k.b.fsub(load(k, start, row * width + v * lanes, dtype, lanes), top)) for row in range(2)
                )
                store(k, round_and_join(k, low, high), target, v * lanes, dtype)
                totals.append(k.b.fadd(k.b.fadd(key.carry[v], low), high))
            key.next(*totals)
        return self._shares(key.carry)

    def _shares(self, totals: list[ir.Value]) -> list[ir.Value]:
        """1 / the sum of each query's powers."""
        divisors = [divisor(self.k, total) for total in totals] if self.spec["safe"] else totals
        return [self.k.b.fdiv(like(total, 1.0), total) for total in divisors]

    def _pair_values(self, v: ir.Value, target: ir.Value, pairs: Index) -> None:
        """target[j, w] = the pair (v[2 j, w], v[2 j + 1, w]) for j < pairs; v is as wide as a multiple of the lanes."""
        k, arg, lanes = self.k, self.arg, self.lanes
        with loop(k, 0, pairs, name="pair") as pair, loop(k, 0, arg["width"], lanes, name="at") as at:
            rows = [k.at(v, k.mul(k.add(k.mul(pair.index, 2), row), arg["v_row"]), bf16) for row in range(2)]
            low, high = (load(k, row, at.index, bf16, lanes) for row in rows)
            store(k, join_bf16(k, low, high), target, k.add(k.mul(pair.index, arg["width"]), at.index), self.dtype)

    def _write(self, out: ir.Value, result: ir.Value, block: Block) -> None:
        """out[query, :] = result[:, query] for the queries of the block."""
        k, arg, dtype = self.k, self.arg, self.dtype
        side, lanes_wide = tile_size(k, dtype), block.vectors * self.lanes
        target = k.at(out, k.mul(block.first, arg["out_row"]), dtype)
        with loop(k, 0, block.queries, side, name="query") as query, loop(k, 0, arg["width"], side, name="at") as at:
            to = k.at(target, k.add(k.mul(query.index, arg["out_row"]), at.index), dtype)
            from_ = k.at(result, k.add(k.mul(at.index, lanes_wide), query.index), dtype)
            if self.spec["whole_tiles"]:
                move_tile(k, to, arg["out_row"], from_, lanes_wide, dtype, side)
            else:
                sizes = k.sub(arg["width"], at.index), k.sub(block.queries, query.index)
                with either(k, k.less(side - 1, k.min(*sizes))) as (whole, edge):
                    with whole:
                        move_tile(k, to, arg["out_row"], from_, lanes_wide, dtype, side)
                    with edge:
                        within = k.min(sizes[0], side), k.min(sizes[1], side)
                        move_edge(k, to, arg["out_row"], from_, lanes_wide, dtype, side, within)
