"""Attention of a single query, as in a step of a decoder: keys fill the lanes of its scores, columns those of its
result. Heads that share keys and values are done together.

Where the queries fill the lanes, one of them would leave all others idle. Every sum has its terms in the same order as
there, so results have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.math_exp import exp_weight
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.types import I32
from treadle.codegen.emit.vectors import constant, multiply_add, splat
from treadle.codegen.kernels.attention_mask import keys_seen_by_one
from treadle.codegen.kernels.fold import Fold
from treadle.codegen.kernels.gemm_block import Factors, RegisterBlock, steps_of_a_turn
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.codegen.kernels.softmax import divisor, finite
from treadle.plan.kernels.attention import KEY_VECTORS, AttentionArgs, AttentionSpec
from treadle.records import dataclass

_WIDTHS = (8, 4, 2, 1)
"""Vectors of the result that are summed side by side, as many as are left."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of matrices that have one each and share keys and values: where the first one, its result and its
    operands of the epilogue and its sink are, the strides to the next ones, and how many there are."""

    q: ir.Value
    out: ir.Value
    operands: Sequence[Operand]
    sink: ir.Value | None
    q_step: Index
    out_step: Index
    operand_steps: Sequence[Index]
    sink_step: Index
    count: Index


class SingleQuery:
    """Emits attention of matrices of one query each."""

    def __init__(self, k: Kernel, spec: AttentionSpec, args: AttentionArgs[ir.Value], epilogue: Epilogue) -> None:
        self.k = k
        self.spec = spec
        self.args = args
        self.epilogue = epilogue
        self.dtype = spec.dtype
        self.lanes = k.target.lanes(self.dtype)
        self.panel = KEY_VECTORS * self.lanes

    def emit(self, queries: Queries, keys: ir.Value, values: ir.Value) -> None:
        """out = softmax(epilogue(q @ keys.T)) @ values for each of the queries."""
        k, dtype = self.k, self.dtype
        scores = k.at(k.scratch, k.mul(self.args.depth, self.panel), dtype)
        count = self._visible(queries)
        whole = k.mul(k.div(k.add(count, self.panel - 1), self.panel), self.panel)
        self._scores(queries, keys, scores, whole, count)
        with loop(k, 0, queries.count, name="query") as query:
            own = k.at(scores, k.mul(query.index, whole), dtype)
            sink = self._sink(queries, query.index)
            share = self._powers(own, self._top(own, self._operands(queries, query.index), sink, count), sink, count)
            self._result(own, values, k.at(queries.out, k.mul(query.index, queries.out_step), dtype), share, count)

    def _operands(self, queries: Queries, query: Index) -> list[Operand]:
        """The operands of the epilogue of query number `query`."""
        k = self.k
        return [
            _along_keys(operand, k.at(operand.base, k.mul(query, step), self.epilogue.operand_dtype(number)))
            for number, (operand, step) in enumerate(zip(queries.operands, queries.operand_steps, strict=True))
        ]

    def _sink(self, queries: Queries, query: Index) -> ir.Value | None:
        """The score of the sink of query number `query`."""
        if queries.sink is None:
            return None
        return load(self.k, queries.sink, self.k.mul(query, queries.sink_step), self.dtype)

    def _visible(self, queries: Queries) -> Index:
        """How many keys, counted from the first, are multiplied: those up to the last one that a query sees."""
        k, keys = self.k, self.args.keys
        if not self.spec.hides:
            return keys
        with loop(k, 0, queries.count, carry=[as_i64(0)], name="seen") as query:
            count = keys_seen_by_one(k, self.epilogue, self._operands(queries, query.index), keys)
            query.next(k.max(query.carry[0], count))
        return query.carry[0]

    def _scores(self, queries: Queries, keys: ir.Value, scores: ir.Value, whole: Index, count: Index) -> None:
        """Rows of `whole` scores q @ keys.T of `count` keys, by panels of transposed keys."""
        k, args, dtype, width = self.k, self.args, self.dtype, self.panel
        product = RegisterBlock(k, dtype, 1, KEY_VECTORS, steps=steps_of_a_turn(k, KEY_VECTORS))
        with loop(k, 0, count, width, name="panel") as panel:
            source = k.at(keys, k.mul(panel.index, args.k_row), dtype)
            sizes = args.depth, k.sub(count, panel.index)
            k_depth = 1 if self.spec.unit_depth else args.k_depth
            copy_panel(k, self.spec.k_source, k.scratch, source, (k_depth, args.k_row), sizes, dtype, width)
            with loop(k, 0, queries.count, name="query") as query:
                q = k.at(queries.q, k.mul(query.index, queries.q_step), dtype)
                sums = product.product(Factors(q, 0, args.q_depth, k.scratch, width), args.depth, self.spec.whole_depth)
                row = k.add(k.mul(query.index, whole), panel.index)
                for number, value in enumerate(sums):
                    store(k, value, scores, k.add(row, number * self.lanes), dtype)

    def _top(self, scores: ir.Value, operands: list[Operand], sink: ir.Value | None, count: Index) -> ir.Value:
        """The greatest score, that of the sink included, after the epilogue has been applied to all others; scores
        behind the last key are -inf."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        peak = Fold("peak", dtype)
        lowest = peak.neutral(lanes)

        def finished(at: Index, mask: ir.Value | None) -> ir.Value:
            value = self.epilogue.apply(load(k, scores, at, dtype, lanes), operands, 0, at, mask)
            value = value if mask is None else k.b.select(mask, value, lowest)
            store(k, value, scores, at, dtype)
            return value

        whole = k.mul(k.div(count, lanes), lanes)
        with loop(k, 0, whole, lanes, carry=[lowest], name="peak") as key:
            key.next(peak.join(k, finished(key.index, None), key.carry[0]))
        with loop(k, whole, count, lanes, carry=key.carry, name="rest") as rest:
            mask = lane_mask(k, k.sub(count, rest.index), lanes)
            rest.next(peak.join(k, finished(rest.index, mask), rest.carry[0]))
        top = peak.across(k, rest.carry[0])
        if sink is not None:
            top = peak.join(k, sink, top)
        return finite(k, top, dtype) if self.spec.safe else top

    def _powers(self, scores: ir.Value, top: ir.Value, sink: ir.Value | None, count: Index) -> ir.Value:
        """Replaces each score by exp(score - top). Returns 1 / the sum of the powers, that of the sink included."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        tops = splat(k, top, lanes)
        start: ir.Value = constant(dtype, 0.0)
        if sink is not None:
            start = k.b.extract_element(exp_weight(k, k.b.fsub(splat(k, sink, lanes), tops)), I32(0))
        with loop(k, 0, count, lanes, carry=[start], name="power") as key:
            powers = exp_weight(k, k.b.fsub(load(k, scores, key.index, dtype, lanes), tops))
            store(k, powers, scores, key.index, dtype)
            total = key.carry[0]
            for lane in range(lanes):
                total = k.b.fadd(total, k.b.extract_element(powers, I32(lane)))
            key.next(total)
        total = divisor(k, key.carry[0]) if self.spec.safe else key.carry[0]
        return k.b.fdiv(constant(dtype, 1.0), total)

    def _result(self, powers: ir.Value, values: ir.Value, out: ir.Value, share: ir.Value, count: Index) -> None:
        """out = powers @ values * share"""
        k, args, dtype, lanes = self.k, self.args, self.dtype, self.lanes
        shares = splat(k, share, lanes)
        start: Index = 0
        for vectors in _WIDTHS:
            step = vectors * lanes
            end = k.add(start, k.mul(k.div(k.sub(args.width, start), step), step))
            product = RegisterBlock(k, dtype, 1, vectors, steps=steps_of_a_turn(k, vectors))
            with loop(k, start, end, step, name="columns") as block:
                factors = Factors(powers, 0, 1, k.at(values, block.index, dtype), args.v_row)
                for number, value in enumerate(product.product(factors, count, self.spec.whole_keys)):
                    store(k, k.b.fmul(value, shares), out, k.add(block.index, number * lanes), dtype)
            start = end
        with when(k, k.less(start, args.width)):
            mask = lane_mask(k, k.sub(args.width, start), lanes)
            nothing = constant(dtype, 0.0, lanes)
            with loop(k, 0, count, carry=[nothing], name="last") as key:
                at = k.add(k.mul(key.index, args.v_row), start)
                power = splat(k, load(k, powers, key.index, dtype), lanes)
                key.next(multiply_add(k, power, load_masked(k, values, at, dtype, mask, nothing), key.carry[0]))
            store_masked(k, k.b.fmul(key.carry[0], shares), out, start, dtype, mask)


def _along_keys(operand: Operand, base: ir.Value) -> Operand:
    """An operand of the epilogue at `base` whose columns are keys instead of queries, of which there is one."""
    return Operand(base, 0, "column" if operand.kind in ("row", "full") else "scalar")
