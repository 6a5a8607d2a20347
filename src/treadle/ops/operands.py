"""How shape rules read their operands and state their results, with one wording for every complaint."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import DtypeError, ShapeError
from treadle.graph.dim import is_expression
from treadle.graph.shape import StaticShape, broadcast, elements, text
from treadle.ops.op import Array, Info

BYTES = (dtypes.u8, dtypes.i8)
"""What products of quantized numbers multiply, in any mixture; they are summed in i32."""


def result(dtype: DType, shape: Sequence[int]) -> Info:
    """What is known of a result of this dtype and shape.

    Raises ShapeError for a negative dimension, LimitError for too many elements.
    """
    dims = tuple(dim if is_expression(dim) else int(dim) for dim in shape)
    elements(dims)
    return Info(dtype, dims)


def operand(inputs: Sequence[Info | None], index: int, name: str) -> Info:
    """Operand `index`. Raises ShapeError, calling it `name`, if it is absent."""
    info = inputs[index] if index < len(inputs) else None
    if info is None:
        raise ShapeError(f"operand {index} ({name}) is missing")
    return info


def alike(inputs: Sequence[Info | None]) -> tuple[DType, list[StaticShape]]:
    """The dtype that all operands have, and their shapes. Raises ShapeError if one is absent or of another dtype."""
    named = [(f"operand {index}", operand(inputs, index, "operand")) for index in range(len(inputs))]
    return same_dtype(*named), [dims(info) for _, info in named]


def optional(inputs: Sequence[Info | None], index: int) -> Info | None:
    """Operand `index`, or None if it is absent."""
    return inputs[index] if index < len(inputs) else None


def present(arrays: Sequence[Array | None], index: int) -> Array:
    """The array of operand `index`, which the shape rule has found to be there."""
    array = arrays[index]
    assert array is not None, f"operand {index} is absent"
    return array


def absent_or(arrays: Sequence[Array | None], index: int) -> Array | None:
    """The array of operand `index`, or None if it is absent."""
    return arrays[index] if index < len(arrays) else None


def dims(info: Info) -> StaticShape:
    """The shape of an operand, which `infer_node` has found to be known."""
    assert info.shape is not None, "the shape is not known yet"
    return info.shape


def rank_at_least(info: Info, rank: int, name: str) -> StaticShape:
    """The operand's shape. Raises ShapeError unless it has `rank` axes or more."""
    shape = dims(info)
    if len(shape) < rank:
        raise ShapeError(f"{name} must have rank {rank} or more, got rank {len(shape)}: {text(shape)}")
    return shape


def same_dtype(*named: tuple[str, Info | None]) -> DType:
    """The one dtype of the operands given as (name, info); absent ones are passed over.

    Raises ShapeError if two differ.
    """
    present_ones = [(name, info) for name, info in named if info is not None]
    first_name, first = present_ones[0]
    for name, info in present_ones[1:]:
        if info.dtype != first.dtype:
            raise DtypeError(f"dtypes differ: {first_name} is {first.dtype}, {name} is {info.dtype}")
    return first.dtype


def product_dtype(left: tuple[str, Info], right: tuple[str, Info], *others: tuple[str, Info | None]) -> DType:
    """The dtype of sums of products: that of all operands, f32 where only the left factor is bf16, or i32 where both
    factors are of 8 bits.

    Raises ShapeError for any other mixture.
    """
    if left[1].dtype in BYTES and right[1].dtype in BYTES:
        return same_dtype(("the sums", Info(dtypes.i32, None)), *others)
    if left[1].dtype == dtypes.bf16 and right[1].dtype == dtypes.f32:
        return same_dtype(right, *others)
    return same_dtype(left, right, *others)


def sums_dtype(right: Array) -> DType:
    """The dtype of sums of products with the factor `right`."""
    dtype = dtypes.from_numpy(right.dtype)
    return dtypes.i32 if dtype in BYTES else dtype


def rounded_alike(right: Array, left: Array) -> Array:
    """The right factor of a product as it is multiplied: rounded to bf16 if the left one is."""
    is_half = dtypes.from_numpy(left.dtype) == dtypes.bf16
    return right.astype(left.dtype).astype(right.dtype) if is_half else right


def need_float(info: Info, name: str) -> DType:
    """The operand's dtype. Raises ShapeError unless it is a floating-point type."""
    if not info.dtype.is_float:
        raise DtypeError(f"{name} must be floating point, got {info.dtype}")
    return info.dtype


def need_integer(info: Info, name: str) -> DType:
    """The operand's dtype. Raises ShapeError unless it is an integer type."""
    if not info.dtype.is_integer:
        raise DtypeError(f"{name} must be of an integer type, got {info.dtype}")
    return info.dtype


def integers(info: Info, name: str) -> tuple[int, ...] | None:
    """The numbers in a shape-like operand (rank 0 or 1), or None while its value is not known."""
    need_integer(info, name)
    if info.shape is not None and len(info.shape) > 1:
        raise ShapeError(f"{name} must have rank 1, got {text(info.shape)}")
    return None if info.value is None else numbers(info.value)


def numbers(array: Array) -> tuple[int, ...]:
    """The elements of an integer array of rank 0 or 1: Python ints, or expressions of sizes."""
    return tuple(number if is_expression(number) else int(number) for number in np.atleast_1d(array))


def sizes_array(sizes: Sequence[int]) -> Array:
    """An i64 array of `sizes`; of Python objects if one is an expression."""
    array = np.empty(len(sizes), object if any(map(is_expression, sizes)) else np.int64)
    array[:] = list(sizes)
    return array


def must_broadcast_to(shape: StaticShape, target: StaticShape, name: str) -> None:
    """Raise ShapeError, naming the operand, unless `shape` broadcasts to exactly `target`."""
    try:
        fits = broadcast(shape, target) == target
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"{name} must broadcast to {text(target)}, got {text(shape)}")


def working_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which references accumulate values of `dtype`: float64 for every float type."""
    return dtypes.f64.numpy if dtype.is_float else dtype.numpy


def widened(array: Array) -> Array:
    """`array` in the dtype in which references accumulate."""
    return array.astype(working_dtype(dtypes.from_numpy(array.dtype)), copy=False)


def as_factor(array: Array) -> Array:
    """`array` in the dtype in which references multiply: numbers of 8 bits as float64, whose sums of them are exact."""
    return array.astype(np.float64) if dtypes.from_numpy(array.dtype) in BYTES else widened(array)


def as_sums(array: Array, dtype: DType) -> Array:
    """Sums of products as `dtype`; integers beyond i32 wrap around."""
    return (
        array.astype(np.int64).astype(np.int32)
        if dtype == dtypes.i32 and array.dtype.kind == "f"
        else array.astype(dtype.numpy)
    )
