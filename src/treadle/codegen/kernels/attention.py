"""Attention: only the scores of one block of queries exist at a time, in scratch.

All matrices are transposed: the queries of a block fill the lanes of vectors. So keys and values are read in place, by
broadcasts; the softmax runs down columns, without sums across lanes; and scores are in the order in which the second
product reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from llvmlite import ir

from treadle.codegen.emit.bfloat import join_bf16, round_and_join
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop, switch, when
from treadle.codegen.emit.math_exp import exp_weight
from treadle.codegen.emit.memory import lane_mask, load, store
from treadle.codegen.emit.ranges import coordinates, offset_at
from treadle.codegen.emit.tiles import Rows, move_part, move_tile, tile_size
from treadle.codegen.emit.vectors import constant, joined, like, splat, take
from treadle.codegen.kernels.attention_mask import until_all_see, visible_keys
from treadle.codegen.kernels.attention_query import Queries, SingleQuery
from treadle.codegen.kernels.fold import Fold
from treadle.codegen.kernels.gemm_block import Factors, RegisterBlock, steps_of_a_turn
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.codegen.kernels.softmax import divisor, finite
from treadle.dtypes import DType, bf16, i64
from treadle.plan.kernels.attention import AttentionArgs, AttentionSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.records import dataclass

_POWERS = 4
"""Vectors of scores whose powers are computed side by side."""

_BY_QUERY = ("column", "full")
"""The kinds of operands of which each query has elements of its own."""


@dataclass(frozen=True, slots=True)
class Block:
    """Query rows done together: the first, how many, and the vectors that hold them."""

    first: Index
    queries: Index
    vectors: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """The addresses of the matrices of a block, whose rows have `width` queries: the greatest score of each, the copied
    queries, the scores and the result."""

    peaks: ir.Value
    panel: ir.Value
    scores: ir.Value
    result: ir.Value
    width: Index


@dataclass(frozen=True, slots=True)
class Matrices:
    """The addresses of one matrix of the batch in each operand, and its size.

    `key_blocks` register blocks cover its keys, of which the first `large_key_blocks` have more rows.
    """

    q: ir.Value
    k: ir.Value
    v: ir.Value
    out: ir.Value
    epilogue: list[Operand]
    sink: ir.Value | None
    queries: Index
    keys: Index
    key_blocks: Index
    large_key_blocks: Index


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a product: heights of their register blocks, how many blocks are large, and how many there are.

    `overlap` is the number of rows where blocks may overlap, else None.
    """

    name: str
    heights: tuple[int, ...]
    large: Index
    blocks: Index
    overlap: Index | None = None


def emit_attention(k: Kernel, spec: AttentionSpec) -> None:
    """out = softmax(epilogue(q @ k.T)) @ v, a unit being a block of query rows of one matrix of the batch."""
    attention = Attention(k, spec)
    args, lanes = attention.args, attention.lanes
    whole = spec.vectors * lanes
    begin, end = k.chunk_range(args.units, args.units_per_chunk)

    def emit_blocks() -> None:
        with loop(k, begin, end, name="unit") as unit:
            matrices = attention.matrices(k.div(unit.index, args.query_blocks))
            first = k.mul(k.rem(unit.index, args.query_blocks), whole)
            queries = k.sub(matrices.queries, first)
            if spec.packed:
                with when(k, k.less(0, queries)):
                    attention.open_block(matrices, first, queries)
            elif not spec.edge:
                attention.block(matrices, Block(first, whole, spec.vectors))
            elif spec.open_queries:
                attention.open_block(matrices, first, queries)
            else:
                with either(k, k.less(queries, whole)) as (partial, full):
                    with partial:
                        attention.block(matrices, Block(first, queries, spec.edge))
                    with full:
                        attention.block(matrices, Block(first, whole, spec.vectors))

    if spec.single_query == "always":
        attention.single_queries(begin, end)
    elif spec.single_query == "sometimes":
        with either(k, k.less(args.queries, 2)) as (one, several):
            with one:
                attention.single_queries(begin, end)
            with several:
                emit_blocks()
    else:
        emit_blocks()


class Attention:
    """Emits one attention kernel."""

    def __init__(self, k: Kernel, spec: AttentionSpec) -> None:
        self.k = k
        self.spec = spec
        self.dtype = spec.dtype
        self.lanes = k.target.lanes(self.dtype)
        self.epilogue = Epilogue(k, spec)
        self.args = k.args(AttentionArgs[ir.Value], spec)
        loads = [
            self.epilogue.operand_dtype(n) for n, kind in enumerate(spec.kinds) if spec.ragged and kind in _BY_QUERY
        ]
        self.is_finished_in_loop = self.epilogue.is_long or not all(map(k.target.has_lane_masks, loads))
        """The epilogue is emitted once for all scores of a block of queries."""
        self.k_depth: Index = 1 if spec.unit_depth else self.args.k_depth
        self.v_column: Index = 1 if spec.unit_column else self.args.v_column

    def matrices(self, batch: Index) -> Matrices:
        """The operands of matrix `batch`."""
        k, args, dtype = self.k, self.args, self.dtype
        position = coordinates(k, batch, args.sizes)
        start, rows = self._text(position[0]) if self.spec.packed else (0, None)

        def begin(pointer: int, strides: Sequence[ir.Value], dtype: DType, row: Index = 0) -> ir.Value:
            return k.at(k.pointer(pointer), offset_at(k, position, strides, k.mul(start, row)), dtype)

        q, key = begin(1, args.q_batch, dtype, args.q_row), begin(2, args.k_batch, dtype, args.k_row)
        v = begin(3, args.v_batch, bf16 if self.spec.bf16_dot else dtype, args.v_row)
        out = begin(0, args.out_batch, dtype, args.out_row)
        operands = [
            Operand(begin(4 + n, args.epilogue_batch[n], self.epilogue.operand_dtype(n)), args.epilogue_rows[n], kind)
            for n, kind in enumerate(self.spec.kinds)
        ]
        if rows is None:
            sizes = (args.queries, args.keys, args.key_blocks, args.large_key_blocks)
        else:
            sizes = (rows, rows, *self._blocks_of(rows))
        sink = begin(4 + len(operands), args.sink_batch, dtype) if self.spec.sink else None
        return Matrices(q, key, v, out, operands, sink, *sizes)

    def _text(self, number: Index) -> tuple[Index, Index]:
        """The first row of text `number`, and how many it has; the kernel fails unless there are such rows."""
        k, args = self.k, self.args
        offsets = k.pointer(4 + len(self.spec.kinds))
        start, end = load(k, offsets, number, i64), load(k, offsets, k.add(number, 1), i64)
        rows = k.sub(end, start)
        for value, most in ((start, args.queries), (end, args.queries), (rows, args.keys)):
            k.fail_if(k.b.icmp_unsigned(">", value, most), INDEX_OUT_OF_RANGE)
        return start, rows

    def _blocks_of(self, keys: Index) -> tuple[Index, Index]:
        """How many register blocks cover `keys`, and how many of them are large, as the lowering counts open ones."""
        k, most = self.k, self.spec.key_rows[0]
        if most == 1:
            return keys, keys
        blocks = k.div(k.add(keys, most - 1), most)
        return blocks, k.max(k.sub(keys, k.mul(blocks, most - 1)), 0)

    def single_queries(self, begin: Index, end: Index) -> None:
        """The matrices from `begin` to `end`, which have one query each; those that share keys and values together."""
        k, args = self.k, self.args
        query = SingleQuery(k, self.spec, args, self.epilogue)
        group: Index = args.sizes[-1] if self.spec.shared_keys else 1
        with loop(k, k.div(begin, group), k.div(k.add(end, k.sub(group, 1)), group), name="group") as unit:
            first = k.max(k.mul(unit.index, group), begin)
            count = k.sub(k.min(k.mul(k.add(unit.index, 1), group), end), first) if self.spec.shared_keys else 1
            found = self.matrices(first)
            own = (args.q_batch, args.out_batch, args.sink_batch, *args.epilogue_batch)
            q_step, out_step, sink_step, *others = (each[-1] if each else 0 for each in own)
            queries = Queries(
                found.q, found.out, found.epilogue, found.sink, q_step, out_step, others, sink_step, count
            )
            query.emit(queries, found.k, found.v)

    def open_block(self, matrices: Matrices, first: Index, queries: Index) -> None:
        """The block of the query rows from `first`, of which there are `queries`, in no more vectors than needed."""
        k, lanes, most = self.k, self.lanes, self.spec.vectors
        vectors = k.min(k.div(k.add(queries, lanes - 1), lanes), most)
        width = k.mul(vectors, lanes)
        queries = k.min(queries, width)
        scratch = self._scratch(matrices, width)
        self._copy_queries(matrices.q, scratch, first, queries)

        def emit(count: int) -> None:
            self._attend(matrices, Block(first, queries, count), scratch)

        switch(k, as_i64(vectors), range(1, most + 1), emit)
        self._write(matrices.out, scratch, first, queries)

    def block(self, matrices: Matrices, block: Block) -> None:
        """One block of query rows."""
        scratch = self._scratch(matrices, block.vectors * self.lanes)
        self._copy_queries(matrices.q, scratch, block.first, block.queries)
        self._attend(matrices, block, scratch)
        self._write(matrices.out, scratch, block.first, block.queries)

    def _scratch(self, matrices: Matrices, width: Index) -> Scratch:
        """Where the matrices of a block of `width` queries are."""
        k, dtype = self.k, self.dtype
        panel = k.at(k.scratch, width, dtype)
        scores = k.at(panel, k.mul(self.args.depth, width), dtype)
        return Scratch(k.scratch, panel, scores, k.at(scores, k.mul(matrices.keys, width), dtype), width)

    def _copy_queries(self, q: ir.Value, scratch: Scratch, first: Index, queries: Index) -> None:
        """panel[:, query] = q[first + query, :]"""
        k, args, dtype = self.k, self.args, self.dtype
        strides, sizes = (args.q_depth, args.q_row), (args.depth, queries)
        start = k.at(q, k.mul(first, args.q_row), dtype)
        copy_panel(k, self.spec.q_source, scratch.panel, start, strides, sizes, dtype, scratch.width)

    def _attend(self, matrices: Matrices, block: Block, scratch: Scratch) -> None:
        """The result of one block of query rows, which are in the panel."""
        k, args, dtype = self.k, self.args, self.dtype
        width = block.vectors * self.lanes
        peaks, scores, result = scratch.peaks, scratch.scores, scratch.result
        factors = Factors(matrices.k, args.k_row, self.k_depth, scratch.panel, width)
        keys: Index = matrices.keys
        if self.spec.hides:
            masks = self._masks(block)
            seen = visible_keys(k, self.epilogue, matrices.epilogue, keys, block.first, masks)
            if self.spec.bf16_dot:
                seen = k.min(k.mul(k.div(k.add(seen, 1), 2), 2), keys)
            compute = partial(self._scores, matrices, block, factors, scores, peaks)
            keys = until_all_see(k, seen, keys, masks, compute, dtype)
            tops = self._tops(block, peaks)
        else:
            tops = self._scores(matrices, block, factors, scores, peaks, keys)
        if self.spec.safe:
            tops = [finite(k, top, dtype) for top in tops]
        powers = self._bf16_powers if self.spec.bf16_dot else self._powers
        shares = powers(tops, scores, keys, self._sink_powers(matrices, tops))

        def store_result(sums: list[ir.Value], row: Index) -> None:
            scaled = [k.b.fmul(value, shares[number % block.vectors]) for number, value in enumerate(sums)]
            self._store(scaled, result, row, block.vectors)

        turns = keys
        values = Factors(matrices.v, self.v_column, args.v_row, scores, width)
        if self.spec.bf16_dot:
            turns = k.div(turns, 2)
            paired = k.at(result, k.mul(args.width, width), dtype)
            self._pack_values(matrices.v, paired, turns)
            values = Factors(paired, 1, args.width, scores, width)
        rows = _Rows("width", self.spec.width_rows, args.large_width_blocks, args.width_blocks)
        self._product(rows, values, (turns, self.spec.whole_keys), block.vectors, store_result)

    def _scores(
        self, matrices: Matrices, block: Block, factors: Factors, scores: ir.Value, peaks: ir.Value, keys: Index
    ) -> list[ir.Value]:
        """The scores of the first `keys` keys. Returns, and leaves at `peaks`, the greatest one of each query."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        lowest = Fold("peak", dtype).neutral(lanes) if matrices.sink is None else self._sink(matrices.sink)

        def finish(sums: list[ir.Value], row: Index) -> None:
            if not self.is_finished_in_loop:
                tops = self._tops(block, peaks)
                sums = self._finish(sums, row, matrices, block, tops)
                self._store(tops, peaks, 0, block.vectors)
            self._store(sums, scores, row, block.vectors)

        if not self.is_finished_in_loop:
            self._store([lowest] * block.vectors, peaks, 0, block.vectors)
        blocks, large = matrices.key_blocks, matrices.large_key_blocks
        if self.spec.hides:
            blocks, large = self._blocks_of(keys)
        rows = _Rows("key", self.spec.key_rows, large, blocks, keys if self.spec.open_keys else None)
        self._product(rows, factors, (self.args.depth, self.spec.whole_depth), block.vectors, finish)
        if not self.is_finished_in_loop:
            return self._tops(block, peaks)
        with loop(k, 0, keys, carry=[lowest] * block.vectors, name="score") as key:
            start = k.at(scores, k.mul(key.index, block.vectors * lanes), dtype)
            raw = [load(k, start, v * lanes, dtype, lanes) for v in range(block.vectors)]
            tops = list(key.carry)
            self._store(self._finish(raw, key.index, matrices, block, tops), start, 0, block.vectors)
            key.next(*tops)
        tops = list(key.carry)
        self._store(tops, peaks, 0, block.vectors)
        return tops

    def _product(
        self,
        rows: _Rows,
        factors: Factors,
        depth: tuple[Index, bool],
        vectors: int,
        finish: Callable[[list[ir.Value], Index], None],
    ) -> None:
        """All register blocks of a product."""
        k, heights, large = self.k, rows.heights, rows.large

        def emit(height: int, row: Index) -> None:
            left = k.at(factors.a, k.mul(row, factors.a_row), self.dtype)
            here = Factors(left, factors.a_row, factors.a_depth, factors.b, factors.b_depth)
            steps = steps_of_a_turn(k, height * vectors)
            block = RegisterBlock(k, self.dtype, height, vectors, use_bf16_dot=self.spec.bf16_dot, steps=steps)
            finish(block.product(here, *depth), row)

        def emit_blocks() -> None:
            with loop(k, 0, large, name=f"{rows.name}.block") as block:
                emit(heights[0], k.mul(block.index, heights[0]))
            if len(heights) > 1:
                with loop(k, large, rows.blocks, name=f"{rows.name}.small") as block:
                    row = k.add(k.mul(block.index, heights[1]), large)
                    emit(heights[1], row if rows.overlap is None else k.min(row, k.sub(rows.overlap, heights[1])))

        if rows.overlap is None or heights[-1] == 1:
            emit_blocks()
            return
        with either(k, k.less(rows.overlap, heights[-1])) as (few, many):
            with few, loop(k, 0, rows.overlap, name=f"{rows.name}.single") as single:
                emit(1, single.index)
            with many:
                emit_blocks()

    def _store(self, sums: list[ir.Value], target: ir.Value, row: Index, vectors: int) -> None:
        width = vectors * self.lanes
        start = self.k.at(target, self.k.mul(row, width), self.dtype)
        for number, value in enumerate(sums):
            store(self.k, value, start, number * self.lanes, self.dtype)

    def _finish(
        self, sums: list[ir.Value], row: Index, matrices: Matrices, block: Block, tops: list[ir.Value]
    ) -> list[ir.Value]:
        """The scores of the keys from `row` on, after the epilogue; `tops` become the greatest of each query."""
        k, lanes = self.k, self.lanes
        peak, masks = Fold("peak", self.dtype), self._masks(block)
        scores: list[ir.Value] = []
        for r in range(len(sums) // block.vectors):
            operands = self.epilogue.operands_at(matrices.epilogue, k.add(row, r), block.first)
            for v in range(block.vectors):
                scores.append(self.epilogue.apply(sums[len(scores)], operands, 0, v * lanes, masks[v]))
                tops[v] = peak.join(k, scores[-1], tops[v])
        return scores

    def _masks(self, block: Block) -> list[ir.Value | None]:
        """For each vector of queries the lanes that are queries; None where all are."""
        k, lanes = self.k, self.lanes
        masks: list[ir.Value | None] = [None] * block.vectors
        if self.spec.ragged and (self.spec.open_queries or block.vectors == self.spec.edge):
            masks[-1] = lane_mask(k, k.sub(block.queries, (block.vectors - 1) * lanes), lanes)
        return masks

    def _tops(self, block: Block, peaks: ir.Value) -> list[ir.Value]:
        return [load(self.k, peaks, v * self.lanes, self.dtype, self.lanes) for v in range(block.vectors)]

    def _sink(self, sink: ir.Value) -> ir.Value:
        return splat(self.k, load(self.k, sink, 0, self.dtype), self.lanes)

    def _sink_powers(self, matrices: Matrices, tops: list[ir.Value]) -> list[ir.Value]:
        """exp(sink - top) for each query, 0 without a sink."""
        if matrices.sink is None:
            return [constant(self.dtype, 0.0, self.lanes)] * len(tops)
        sink = self._sink(matrices.sink)
        return [exp_weight(self.k, self.k.b.fsub(sink, top)) for top in tops]

    def _powers(self, tops: list[ir.Value], scores: ir.Value, keys: Index, totals: list[ir.Value]) -> list[ir.Value]:
        """Replaces each score by exp(score - top). Returns 1 / the sum of each query's powers and its `totals`."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        vectors = len(tops)

        def replace(key: Index, count: int, totals: list[ir.Value]) -> list[ir.Value]:
            """Those of `count` keys as one wide vector, so that the steps of all their vectors alternate."""
            start = k.at(scores, k.mul(key, vectors * lanes), dtype)
            wide = load(k, start, 0, dtype, count * vectors * lanes)
            powers = exp_weight(k, k.b.fsub(wide, joined(k, tops * count)))
            store(k, powers, start, 0, dtype)
            for number in range(count * vectors):
                own = take(k, powers, range(number * lanes, (number + 1) * lanes))
                totals[number % vectors] = k.b.fadd(totals[number % vectors], own)
            return totals

        together = max(1, _POWERS // vectors)
        most = k.mul(k.div(keys, together), together)
        with loop(k, 0, most, together, carry=totals, name="power") as key:
            key.next(*replace(key.index, together, list(key.carry)))
        with loop(k, most, keys, carry=key.carry, name="last.power") as key:
            key.next(*replace(key.index, 1, list(key.carry)))
        return self._shares(key.carry)

    def _bf16_powers(
        self, tops: list[ir.Value], scores: ir.Value, keys: Index, totals: list[ir.Value]
    ) -> list[ir.Value]:
        """As `_powers`, but the powers of two keys become one row of pairs of bf16; these fill the first rows."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        width = len(tops) * lanes
        with loop(k, 0, keys, 2, carry=totals, name="power") as key:
            start = k.at(scores, k.mul(key.index, width), dtype)
            target = k.at(scores, k.mul(k.div(key.index, 2), width), dtype)
            totals = []
            for v, top in enumerate(tops):
                low, high = (self._power(start, row * width + v * lanes, top) for row in range(2))
                store(k, round_and_join(k, low, high), target, v * lanes, dtype)
                totals.append(k.b.fadd(k.b.fadd(key.carry[v], low), high))
            key.next(*totals)
        return self._shares(key.carry)

    def _power(self, scores: ir.Value, at: int, top: ir.Value) -> ir.Value:
        return exp_weight(self.k, self.k.b.fsub(load(self.k, scores, at, self.dtype, self.lanes), top))

    def _shares(self, totals: list[ir.Value]) -> list[ir.Value]:
        """1 / the sum of each query's powers."""
        divisors = [divisor(self.k, total) for total in totals] if self.spec.safe else totals
        return [self.k.b.fdiv(like(total, 1.0), total) for total in divisors]

    def _pack_values(self, v: ir.Value, target: ir.Value, pairs: Index) -> None:
        """target[j, w] = the pair (v[2 j, w], v[2 j + 1, w]) for j < pairs; v is as wide as a multiple of the lanes."""
        k, args, lanes = self.k, self.args, self.lanes
        with loop(k, 0, pairs, name="pair") as pair, loop(k, 0, args.width, lanes, name="at") as at:
            rows = [k.at(v, k.mul(k.add(k.mul(pair.index, 2), row), args.v_row), bf16) for row in range(2)]
            low, high = (load(k, row, at.index, bf16, lanes) for row in rows)
            store(k, join_bf16(k, low, high), target, k.add(k.mul(pair.index, args.width), at.index), self.dtype)

    def _write(self, out: ir.Value, scratch: Scratch, first: Index, queries: Index) -> None:
        """out[first + query, :] = result[:, query] for the queries of a block."""
        k, args, dtype = self.k, self.args, self.dtype
        side, lanes_wide, result = tile_size(k, dtype), scratch.width, scratch.result
        target = k.at(out, k.mul(first, args.out_row), dtype)
        with loop(k, 0, queries, side, name="query") as query, loop(k, 0, args.width, side, name="at") as at:
            to = k.at(target, k.add(k.mul(query.index, args.out_row), at.index), dtype)
            from_ = k.at(result, k.add(k.mul(at.index, lanes_wide), query.index), dtype)
            if self.spec.whole_tiles:
                move_tile(k, Rows(to, args.out_row), Rows(from_, lanes_wide), dtype, side)
            else:
                sizes = k.sub(args.width, at.index), k.sub(queries, query.index)
                within = k.min(sizes[0], side), k.min(sizes[1], side)
                move_part(k, Rows(to, args.out_row), Rows(from_, lanes_wide), dtype, side, within)
