"""What a rule is, and the conversions of operands that rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.scalars import scalar
from treadle.graph.dim import DimExpr, RealExpr
from treadle.graph.value import Value

Rule = Callable[..., Any]
"""(builder, the op's arguments in the order of its schema) -> its result, or a list of its results.

Tensors are Values; arguments that are left out have the schema's defaults. Where `compat.torch` gives the rule to users
without a form of its own, arguments have PyTorch's names. Raises Fault or ShapeError for arguments
that treadle cannot take, without the name of the op, which the caller adds.
"""

Operand = Value | Number | bool | int | float
"""A tensor, or a Python number that is known now or later."""

Sizes = int | Sequence[int]
"""One number for every spatial axis, or one for each."""

_CATEGORIES = {"bool": 0, "uint": 1, "int": 1, "float": 2}


def _category(operand: Operand) -> int:
    if isinstance(operand, bool):
        return 0
    if isinstance(operand, int | float | DimExpr | RealExpr):
        return 1 if isinstance(operand, int | DimExpr) else 2
    return _CATEGORIES[(operand.value if isinstance(operand, Number) else operand).known_dtype.kind]


def known_number(operand: Any) -> Any:
    """Returns the element of a value of rank 0 if it is known; what is no such value as it is."""
    return scalar(operand) if isinstance(operand, Value) else operand


def require_known(*bounds: Any) -> None:
    """Raises NeedsShapeError for numbers that only a run knows."""
    values = [bound.value for bound in bounds if isinstance(bound, Number)]
    if values:
        raise NeedsShapeError(*values, what="its bounds depend on data")


def common(*operands: Operand) -> DType:
    """Returns PyTorch's promoted dtype: of tensors with axes, or of scalars or numbers of a higher category."""
    groups: list[list[DType]] = [[], [], []]
    for operand in operands:
        if isinstance(operand, Value):
            groups[0 if operand.shape is None or len(operand.shape) else 1].append(operand.known_dtype)
        else:
            groups[2].append((dtypes.boolean, dtypes.i64, dtypes.f32)[_category(operand)])
    found: DType | None = None
    for group in groups:
        highest: DType | None = None
        for dtype in group:
            highest = dtype if highest is None else promote(highest, dtype)
        if highest is not None and (found is None or _CATEGORIES[highest.kind] > _CATEGORIES[found.kind]):
            found = highest
    assert found is not None, "an op has an operand"
    return found


def promote(first: DType, second: DType) -> DType:
    """Returns the type both convert to, by PyTorch's table.

    Raises Unsupported for the unsigned types it has no line for.
    """
    if first == second:
        return first
    high, low = sorted((first, second), key=lambda dtype: (_CATEGORIES[dtype.kind], dtype.size), reverse=True)
    if _CATEGORIES[high.kind] != _CATEGORIES[low.kind]:
        return high
    if high.is_float:
        return dtypes.f32 if high.size == low.size else high  # float16 with bfloat16
    if any(dtype.kind == "uint" and dtype.size > 1 for dtype in (first, second)):
        raise Unsupported(f"PyTorch has no common element type of {first} and {second}; cast one with .to(dtype)")
    return dtypes.i16 if high.size == low.size else high  # int8 with uint8


def value_of(b: Builder, operand: Operand, dtype: DType) -> Value:
    """Returns `operand` as a value of `dtype`."""
    if isinstance(operand, Number):
        return b.cast(operand.value, dtype)
    return b.cast(operand, dtype) if isinstance(operand, Value) else b.scalar(operand, dtype)


def promoted(b: Builder, *operands: Operand, floating: bool = False) -> list[Value]:
    """Returns the operands in their common dtype; with `floating` integers become floats."""
    dtype = common(*operands)
    if floating and not dtype.is_float:
        dtype = dtypes.f32
    return [value_of(b, operand, dtype) for operand in operands]


def floating(b: Builder, x: Value) -> Value:
    """Returns `x`, with integers converted to floats."""
    return x if x.known_dtype.is_float else b.cast(x, dtypes.f32)


def per_axis(given: Sizes, rank: int) -> tuple[int, ...]:
    """Returns a number for each spatial axis."""
    found = (given,) * rank if isinstance(given, int | DimExpr) else tuple(given)
    return found * rank if len(found) == 1 else found


def with_batch(b: Builder, x: Value, rank: int) -> Value:
    """Returns `x` [N, C, *S] or [C, *S], S of `rank` axes, as [N, C, *S]."""
    return x if b.rank(x) == rank + 2 else b.reshape(x, [1, *b.shape(x)])


def batched_like(b: Builder, result: Value, x: Value) -> Value:
    """Returns `result` without the batch axis if `x` has none."""
    return result if b.rank(result) == b.rank(x) else b.reshape(result, b.shape(result)[1:])


def require_inference(training: bool) -> None:
    """Raises Fault while training."""
    if training:
        raise Fault("it is in training mode; treadle runs inference: call .eval() on the module")
