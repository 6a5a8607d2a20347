"""top_k: the k largest or smallest elements along an axis, and where they are."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape, elements, normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, numbers, operand, present, result


def infer_top_k(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, k (one number) -> values, indices (i64). attrs: axis, largest, sorted."""
    x, k = operand(inputs, 0, "x"), operand(inputs, 1, "k")
    shape = dims(x)
    axis = normalize_axis(attrs["axis"], len(shape))
    if elements(dims(k)) != 1:
        raise ShapeError(f"k must be one number, got shape {text(dims(k))}")
    if k.value is None:
        return [Info(x.dtype, None), Info(dtypes.i64, None)][:n_outputs]
    count = _count(k.value, shape, axis)
    found = (*shape[:axis], count, *shape[axis + 1 :])
    return [result(x.dtype, found), result(dtypes.i64, found)][:n_outputs]


def _count(k: Array, shape: StaticShape, axis: int) -> int:
    """`k` as a number. Raises ShapeError if `axis` has fewer elements."""
    (count,) = numbers(k.reshape(1))
    if not 0 <= count <= shape[axis]:
        raise ShapeError(f"k is {count}, but axis {axis} of x {text(shape)} has {shape[axis]} elements")
    return count


def evaluate_top_k(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """The result is in order even if `sorted` is false; of equal elements the first comes first."""
    x = present(arrays, 0)
    axis = normalize_axis(attrs["axis"], x.ndim)
    count = _count(present(arrays, 1), x.shape, axis)
    if attrs["largest"]:
        backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices = np.ascontiguousarray(np.take(order, range(count), axis=axis)).astype(np.int64)
    return [np.take_along_axis(x, indices, axis), indices]
