"""Arithmetic, comparison and logic, element by element with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.frontends.tensorflow.emitter import Emitter
from weft.frontends.tensorflow.rules.kinds import DType, Same, Value

Rule = Callable[..., Any]


def unary(op: str) -> Rule:
    """The rule of an op that is the core op `op`."""

    def rule(e: Emitter, x: Same) -> Value:
        return e.add(op, x)

    return rule


def binary(op: str) -> Rule:
    """The rule of an op on two tensors that is the core op `op`."""

    def rule(e: Emitter, x: Same, y: Same) -> Value:
        return e.add(op, x, y)

    return rule


def bits_or_logic(op: str) -> Rule:
    """The rule of Python's & | ^: bits of integers, logic of booleans."""

    def rule(e: Emitter, x: Same, y: Same) -> Value:
        return e.add(f"bitwise_{op}" if x.known_dtype.is_integer else op, x, y)

    return rule


def inverted(e: Emitter, x: Same) -> Value:
    """Python's ~."""
    return e.add("bitwise_not" if x.known_dtype.is_integer else "not", x)


def rounding(op: str) -> Rule:
    """floor, ceil and round, which leave integers as they are."""

    def rule(e: Emitter, x: Same) -> Value:
        return e.add(op, x) if x.known_dtype.is_float else x

    return rule


def truediv(e: Emitter, x: Same, y: Same) -> Value:
    """Python's /: integers become float64 (float32 for 8 and 16 bits)."""
    if not x.known_dtype.is_float:
        wide = dtypes.f32 if x.known_dtype.size <= 2 else dtypes.f64
        x, y = e.cast(x, wide), e.cast(y, wide)
    return e.add("div", x, y)


def floordiv(e: Emitter, x: Same, y: Same) -> Value:
    if x.known_dtype.is_float:
        return e.add("floor", e.add("div", x, y))
    return e.add("div", e.add("sub", x, e.add("mod", x, y)), y)


def div_no_nan(e: Emitter, x: Same, y: Same) -> Value:
    zero = e.scalar(0, y)
    return e.add("where", e.add("eq", y, zero), zero, e.add("div", x, y))


def square(e: Emitter, x: Same) -> Value:
    return e.add("mul", x, x)


def squared_difference(e: Emitter, x: Same, y: Same) -> Value:
    return square(e, e.add("sub", x, y))


def multiply_no_nan(e: Emitter, x: Same, y: Same) -> Value:
    """x * y, 0 where y is 0 whatever x is."""
    zero = e.scalar(0, y)
    return e.add("where", e.add("eq", y, zero), zero, e.add("mul", x, y))


def is_finite(e: Emitter, x: Same) -> Value:
    return e.add("not", e.add("or", e.add("isnan", x), e.add("isinf", x)))


def clip_by_value(e: Emitter, t: Same, clip_value_min: Same, clip_value_max: Same) -> Value:
    return e.add("min", e.add("max", t, clip_value_min), clip_value_max)


def add_n(e: Emitter, inputs: Sequence[Same]) -> Value:
    total = inputs[0]
    for value in inputs[1:]:
        total = e.add("add", total, value)
    return total if len(inputs) > 1 else e.add("identity", total)


def cast(e: Emitter, x: Value, dtype: DType) -> Value:
    return e.cast(x, dtype)


def where(e: Emitter, condition: Value, x: Same | None = None, y: Same | None = None) -> Value:
    """Elements of x where the condition holds, else of y; without them the positions where it holds, int64 [n, rank]."""
    if x is None or y is None:
        return e.transpose(e.add("non_zero", condition), (1, 0))
    return e.add("where", condition, x, y)


def select(e: Emitter, condition: Value, x: Same | None = None, y: Same | None = None) -> Value:
    """As `where` with x and y of one shape; a condition of rank 1 chooses whole rows."""
    if x is None or y is None:
        return where(e, condition)
    if e.rank(condition) == 1 and e.rank(x) > 1:
        condition = e.reshape(condition, (-1, *(1,) * (e.rank(x) - 1)))
    return e.add("where", condition, x, y)


def matmul(
    e: Emitter,
    a: Same,
    b: Same,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Value:
    """The product of the last two axes; the adjoint of a real matrix is its transpose. Raises ValueError below rank 2."""
    if min(e.rank(a), e.rank(b)) < 2:
        raise ValueError(f"matmul: wanted tensors of rank 2 or more, got ranks {e.rank(a)} and {e.rank(b)}")
    return e.add("matmul", a, b, transpose_a=transpose_a or adjoint_a, transpose_b=transpose_b or adjoint_b)


def tensordot(e: Emitter, a: Same, b: Same, axes: Any) -> Value:
    ranks = e.rank(a), e.rank(b)
    if isinstance(axes, int):
        left, right = tuple(range(ranks[0] - axes, ranks[0])), tuple(range(axes))
    else:
        left, right = (tuple(np.atleast_1d(side).tolist()) for side in axes)
    letters = [chr(97 + axis) for axis in range(sum(ranks))]
    first, second = letters[: ranks[0]], letters[ranks[0] :]
    for x, y in zip(left, right, strict=True):
        second[y] = first[x]
    out = [c for c in first if c not in second] + [c for c in second if c not in first]
    return e.add("einsum", a, b, equation=f"{''.join(first)},{''.join(second)}->{''.join(out)}")


def einsum(e: Emitter, equation: str, *inputs: Same) -> Value:
    return e.add("einsum", *inputs, equation=equation)
