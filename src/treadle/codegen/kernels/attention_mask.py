"""Which keys a mask hides from all queries of a block: those after the last key that one of them sees.

A key is hidden where its score would be `_HIDDEN` or less if the product of query and key were 0, as with masks that
add -inf or the lowest number. Beside any other key its weight is 0, whatever the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.lanes import any_lane, last_lane, repeat_while
from treadle.codegen.emit.memory import lane_mask
from treadle.codegen.emit.types import I1, I64
from treadle.codegen.emit.vectors import constant, like
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.dtypes import DType, f32, f64

_HIDDEN = {f32: -1e37, f64: -1e307}
"""Products change numbers beyond these by no more than an ulp; two such numbers that differ do so by more than exp can
tell from infinity."""


def visible_keys(
    k: Kernel,
    epilogue: Epilogue,
    operands: list[Operand],
    keys: Index,
    queries: Index,
    lanes: Sequence[ir.Value | None],
) -> Index:
    """How many of `keys`, counted from the first, some query sees; all where none sees any. `lanes` are those of each
    vector of the queries from `queries` on that are queries, None for all."""

    def last_seen(key: Index) -> ir.Value:
        found: ir.Value = I1(0)
        for number, mask in enumerate(lanes):
            nothing = constant(epilogue.dtype, 0.0, epilogue.lanes)
            first = k.add(queries, number * epilogue.lanes)
            seen = _above(k, epilogue.apply(nothing, operands, key, first, mask), epilogue.dtype)
            found = k.b.or_(found, any_lane(k, _only(k, seen, mask)))
        return k.b.zext(found, I64)

    return _up_to_the_last_seen(k, keys, keys, 1, last_seen)


def keys_seen_by_one(k: Kernel, epilogue: Epilogue, operands: list[Operand], keys: Index) -> ir.Value:
    """As `visible_keys`, for a single query: keys are the columns of `operands`."""
    lanes = epilogue.lanes
    nothing = constant(epilogue.dtype, 0.0, lanes)

    def last_seen(first: Index) -> ir.Value:
        mask = lane_mask(k, k.sub(keys, first), lanes)
        seen = k.b.and_(_above(k, epilogue.apply(nothing, operands, 0, first, mask), epilogue.dtype), mask)
        return last_lane(k, seen)

    whole = k.mul(k.div(k.add(keys, lanes - 1), lanes), lanes)
    return _up_to_the_last_seen(k, whole, keys, lanes, last_seen)


def until_all_see(
    k: Kernel,
    visible: Index,
    keys: Index,
    lanes: Sequence[ir.Value | None],
    compute: Callable[[Index], list[ir.Value]],
    dtype: DType,
) -> Index:
    """Calls `compute` for the `visible` keys. It returns the greatest scores of the queries, which are in `lanes`;
    where one of them sees no key, all keys weigh the same for it, so that it is called again for all `keys`. Returns
    for how many it was called last.
    """

    def turn(state: list[ir.Value]) -> list[ir.Value]:
        blind: ir.Value = I1(0)
        for top, mask in zip(compute(state[0]), lanes, strict=True):
            blind = k.b.or_(blind, any_lane(k, _only(k, k.b.not_(_above(k, top, dtype)), mask)))
        again = k.b.and_(blind, k.less(state[0], keys))
        return [k.b.select(again, as_i64(keys), state[0]), again]

    return repeat_while(k, [as_i64(visible), I1(1)], lambda state: state[1], turn)[0]


def _only(k: Kernel, found: ir.Value, mask: ir.Value | None) -> ir.Value:
    return found if mask is None else k.b.and_(found, mask)


def _above(k: Kernel, scores: ir.Value, dtype: DType) -> ir.Value:
    """Whether `scores` are none of hidden keys; NaN is none."""
    return k.b.fcmp_unordered(">", scores, like(scores, _HIDDEN[dtype]))


def _up_to_the_last_seen(
    k: Kernel, start: Index, keys: Index, together: int, last_seen: Callable[[Index], ir.Value]
) -> ir.Value:
    """How many of `keys` are multiplied: those up to the last one that is seen; all if none is seen.

    The memory of the others may hold anything. The search goes back from `start` by `together` keys; `last_seen` says
    of those from one on how many there are up to the last that is seen.
    """

    def unfinished(state: list[ir.Value]) -> ir.Value:
        return k.b.and_(k.less(0, state[0]), k.b.not_(k.less(0, state[1])))

    def turn(state: list[ir.Value]) -> list[ir.Value]:
        first = k.sub(state[0], together)
        found = last_seen(first)
        return [as_i64(first), k.b.select(k.less(0, found), as_i64(k.add(first, found)), I64(0))]

    _, count = repeat_while(k, [as_i64(start), I64(0)], unfinished, turn)
    return k.b.select(k.less(0, count), count, as_i64(keys))
