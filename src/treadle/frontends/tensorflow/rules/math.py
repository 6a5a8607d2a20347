"""Elementwise arithmetic, comparison and logic, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.result_types import of_quotient
from treadle.frontends.tensorflow.rules.kinds import DType, Same, Value
from treadle.frontends.tensorflow.rules.shape import expect_one_rank
from treadle.graph.shape import StaticShape

Rule = Callable[..., Any]


def unary(op: str) -> Rule:
    """The rule of the core op `op`."""

    def rule(e: Emitter, x: Same) -> Value:
        return e.add(op, x)

    return rule


def binary(op: str) -> Rule:
    """The rule of the core op `op` on two tensors."""

    def rule(e: Emitter, x: Same, y: Same) -> Value:
        return e.add(op, x, y)

    return rule


def equality(op: str) -> Rule:
    """The rule of Equal and NotEqual in files, where shapes that do not broadcast may simply be unequal."""

    def rule(e: Emitter, x: Same, y: Same, incompatible_shape_error: bool = True) -> Value:
        if not incompatible_shape_error and not _fit(e.shape(x), e.shape(y)):
            return e.constant(np.array(op == "ne"))
        return e.add(op, x, y)

    return rule


def _fit(a: StaticShape, b: StaticShape) -> bool:
    """Return whether the shapes broadcast."""
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def bits_or_logic(op: str) -> Rule:
    """The rule of Python's & | ^: bits of integers, logic of booleans."""

    def rule(e: Emitter, x: Same, y: Same) -> Value:
        return e.add(f"bitwise_{op}" if x.known_dtype.is_integer else op, x, y)

    return rule


def inverted(e: Emitter, x: Same) -> Value:
    """Python's ~."""
    return e.add("bitwise_not" if x.known_dtype.is_integer else "not", x)


def rounding(op: str) -> Rule:
    """The rule of floor, ceil and round, which leave integers unchanged."""

    def rule(e: Emitter, x: Same) -> Value:
        return e.add(op, x) if x.known_dtype.is_float else x

    return rule


def truediv(e: Emitter, x: Same, y: Same) -> Value:
    """Divide as Python's / does, integers as floats."""
    kind = of_quotient(x.known_dtype)
    if x.known_dtype != kind:
        x, y = e.cast(x, kind), e.cast(y, kind)
    return e.add("div", x, y)


def truncatediv(e: Emitter, x: Same, y: Same) -> Value:
    """Divide and round towards 0."""
    quotient = e.add("div", x, y)
    if not x.known_dtype.is_float:
        return quotient
    below = e.add("lt", quotient, e.scalar(0, quotient))
    return e.add("where", below, e.add("ceil", quotient), e.add("floor", quotient))


def floordiv(e: Emitter, x: Same, y: Same) -> Value:
    if x.known_dtype.is_float:
        return e.add("floor", e.add("div", x, y))
    below = e.add("ne", e.add("mod", x, y), e.add("fmod", x, y))
    return e.add("sub", e.add("div", x, y), e.cast(below, x.known_dtype))


def div_no_nan(e: Emitter, x: Same, y: Same) -> Value:
    """Return x / y, integers as floats, and 0 where y is 0."""
    zero = e.scalar(0, y)
    quotient = truediv(e, x, y)
    return e.add("where", e.add("eq", y, zero), e.scalar(0, quotient), quotient)


def square(e: Emitter, x: Same) -> Value:
    return e.add("mul", x, x)


def squared_difference(e: Emitter, x: Same, y: Same) -> Value:
    return square(e, e.add("sub", x, y))


def multiply_no_nan(e: Emitter, x: Same, y: Same) -> Value:
    """Return x * y, and 0 where y is 0, whatever x is."""
    zero = e.scalar(0, y)
    return e.add("where", e.add("eq", y, zero), zero, e.add("mul", x, y))


def is_finite(e: Emitter, x: Same) -> Value:
    return e.add("not", e.add("or", e.add("isnan", x), e.add("isinf", x)))


def clip_by_value(e: Emitter, t: Same, clip_value_min: Same, clip_value_max: Same) -> Value:
    found = e.add("max", e.add("min", t, clip_value_max), clip_value_min)
    if e.shape(found) != e.shape(t):
        raise ValueError(f"clip_by_value: bounds make {list(e.shape(found))} of shape {list(e.shape(t))}")
    return found


def clipped(e: Emitter, t: Same, clip_value_min: Same, clip_value_max: Same) -> Value:
    """ClipByValue in files: bounds are of rank 0 or of the shape of t. Raises ValueError."""
    for bound in (clip_value_min, clip_value_max):
        if e.shape(bound) not in ((), e.shape(t)):
            raise ValueError(
                f"ClipByValue: wanted bounds of shape [] or {list(e.shape(t))}, got {list(e.shape(bound))}"
            )
    return clip_by_value(e, t, clip_value_min, clip_value_max)


def add_n(e: Emitter, inputs: Sequence[Same]) -> Value:
    expect_one_rank(e, inputs)
    shapes = [e.shape(value) for value in inputs]
    if not shapes or any(each != shapes[0] for each in shapes):
        raise ValueError(f"add_n: wanted one or more tensors of one shape, got {shapes}")
    total = inputs[0]
    for value in inputs[1:]:
        total = e.add("add", total, value)
    return total if len(inputs) > 1 else e.add("identity", total)


def cast(e: Emitter, x: Value, dtype: DType) -> Value:
    return e.cast(x, dtype)


def where(e: Emitter, condition: Value, x: Same | None = None, y: Same | None = None) -> Value:
    """Choose elements of x where the condition is true, else of y; without them the indices of true, i64 [n, rank]."""
    if x is None or y is None:
        return places_of_true(e, condition)
    return e.add("where", condition, x, y)


def places_of_true(e: Emitter, condition: Value) -> Value:
    """Return the indices of elements that are true: i64 [n, rank]."""
    rank = None if condition.shape is None else len(condition.shape)
    found = e.add("counted", *e.add_many("non_zero", [condition], 2), axis=1, label="non_zero")
    return e.described(e.transpose(found, (1, 0)), lambda: (None, rank))


def select(e: Emitter, condition: Value, x: Same | None = None, y: Same | None = None) -> Value:
    """Choose as `where` does, with x and y of one shape; a condition of rank 1 chooses rows."""
    if x is None or y is None:
        return where(e, condition)
    if e.shape(x) != e.shape(y) or e.shape(condition) not in ((), e.shape(x)[:1], e.shape(x)):
        raise ValueError(f"select: shapes {e.shape(condition)}, {e.shape(x)} and {e.shape(y)} do not fit")
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
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: DType | None = None,
) -> Value:
    """Return the product over the last two axes. The adjoint of a real matrix is its transpose. Raises ValueError.

    `a_is_sparse` and `b_is_sparse` have no effect. With `output_type` products and sums have this type.
    """
    if min(e.rank(a), e.rank(b)) < 2:
        raise ValueError(f"matmul: wanted tensors of rank 2 or more, got ranks {e.rank(a)} and {e.rank(b)}")
    if output_type is not None and output_type != a.known_dtype:
        a, b = e.cast(a, output_type), e.cast(b, output_type)
    return e.add("matmul", a, b, transpose_a=transpose_a or adjoint_a, transpose_b=transpose_b or adjoint_b)


def batch_matmul(e: Emitter, a: Same, b: Same, adjoint_a: bool = False, adjoint_b: bool = False) -> Value:
    """BatchMatMul in files: as matmul, of tensors that differ in their last two axes at most. Raises ValueError."""
    if e.shape(a)[:-2] != e.shape(b)[:-2] or e.rank(a) != e.rank(b):
        raise ValueError(f"BatchMatMul: batches differ: {list(e.shape(a))} and {list(e.shape(b))}")
    return matmul(e, a, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


def tensordot(e: Emitter, a: Same, b: Same, axes: Any) -> Value:
    """Return products over the last `axes` axes of a and the first of b, or over the axes listed. Raises ValueError."""
    ranks = e.rank(a), e.rank(b)
    if isinstance(axes, int):
        if not 0 <= axes <= min(ranks):
            raise ValueError(f"tensordot: wanted axes from 0 to {min(ranks)}, got {axes}")
        left, right = tuple(range(ranks[0] - axes, ranks[0])), tuple(range(axes))
    else:
        left, right = (
            tuple(e.axis(value, axis) for axis in np.atleast_1d(side).tolist())
            for value, side in zip((a, b), axes, strict=True)
        )
        if len(set(left)) != len(left) or len(set(right)) != len(right) or len(left) != len(right):
            raise ValueError(f"tensordot: wanted as many axes of each, none of them twice, got {axes!r}")
    letters = [chr(97 + axis) for axis in range(sum(ranks))]
    first, second = letters[: ranks[0]], letters[ranks[0] :]
    for x, y in zip(left, right, strict=True):
        second[y] = first[x]
    out = [c for c in first if c not in second] + [c for c in second if c not in first]
    return e.add("einsum", a, b, equation=f"{''.join(first)},{''.join(second)}->{''.join(out)}")


def einsum(e: Emitter, equation: str, *inputs: Same) -> Value:
    for term, value in zip(equation.replace(" ", "").split("->")[0].split(","), inputs, strict=False):
        if "." not in term:
            e.expect_rank(value, len(term))
    return e.add("einsum", *inputs, equation=equation)
