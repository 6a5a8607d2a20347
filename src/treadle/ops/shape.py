"""shape, size, range, constant_of_shape: tensors made of shapes, and shapes made of tensors."""

import math
from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import LimitError, ShapeError
from treadle.graph.dim import RealExpr, at_least, ceil_div, is_expression, maximum
from treadle.graph.shape import elements
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, integers, numbers, operand, present, result, same_dtype, sizes_array

_MAX_RANGE = 1 << 40


def _bounds(attrs: Attrs, rank: int) -> tuple[int, int]:
    """The axes [start, end) of `shape`, clamped to the rank."""
    start, end = attrs.get("start") or 0, attrs.get("end")
    end = rank if end is None else end
    start, end = (min(max(axis + rank if axis < 0 else axis, 0), rank) for axis in (start, end))
    return start, max(start, end)


def infer_shape(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: start, end (None: the rank). i64, one number an axis; its value is known at once."""
    shape = dims(operand(inputs, 0, "x"))
    start, end = _bounds(attrs, len(shape))
    return [Info(dtypes.i64, (end - start,), sizes_array(shape[start:end]))]


def evaluate_shape(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    shape = present(arrays, 0).shape
    start, end = _bounds(attrs, len(shape))
    return [np.array(shape[start:end], np.int64)]


def infer_size(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """The number of elements, an i64 scalar; its value is known at once."""
    return [Info(dtypes.i64, (), sizes_array([elements(dims(operand(inputs, 0, "x")))]).reshape(()))]


def evaluate_size(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return [np.array(present(arrays, 0).size, np.int64)]


def _range_length(start: Array, limit: Array, delta: Array) -> int:
    first, last, step = (array.reshape(()).item() for array in (start, limit, delta))
    if step == 0 or not all(is_expression(number) or math.isfinite(number) for number in (first, last, step)):
        raise ShapeError(f"a range from {first} to {last} in steps of {step} has no length")
    if is_expression(last - first):
        first, last, step = map(_whole, (first, last, step))
    # Integers are counted exactly: float division would lose the last ones of long ranges.
    is_real = any(isinstance(number, float | RealExpr) for number in (first, last, step))
    count: int = maximum(0, math.ceil((last - first) / step) if is_real else ceil_div(last - first, step))
    if at_least(count, _MAX_RANGE + 1):
        raise LimitError(f"a range from {first} to {last} in steps of {step} has {count} elements")
    return count


def _whole(number: float) -> float:
    """`number` as an int where it is a whole one."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def infer_range(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """start, limit, delta: scalars of one numeric dtype."""
    named = [(name, operand(inputs, index, name)) for index, name in enumerate(("start", "limit", "delta"))]
    dtype = same_dtype(*named)
    for name, info in named:
        if elements(dims(info)) != 1:
            raise ShapeError(f"{name} must be a scalar, got shape {list(dims(info))}")
    values = [info.value for _, info in named]
    start, limit, delta = values
    if start is None or limit is None or delta is None:
        return [Info(dtype, None)]
    return [result(dtype, (_range_length(start, limit, delta),))]


def evaluate_range(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    start, limit, delta = (present(arrays, index) for index in range(3))
    steps = np.arange(_range_length(start, limit, delta))
    wide = np.float64 if start.dtype.kind not in "iu" else start.dtype
    return [(start.reshape(()).astype(wide) + steps.astype(wide) * delta.reshape(()).astype(wide)).astype(start.dtype)]


def infer_constant_of_shape(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """shape. attrs: value (an array of one element, whose dtype the result has)."""
    wanted = integers(operand(inputs, 0, "shape"), "shape")
    dtype = dtypes.from_numpy(attrs["value"].dtype)
    return [Info(dtype, None) if wanted is None else result(dtype, wanted)]


def evaluate_constant_of_shape(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    shape = numbers(present(arrays, 0))
    elements(shape)
    return [np.full(shape, attrs["value"].reshape(()), attrs["value"].dtype)]
