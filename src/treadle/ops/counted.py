"""counted: what an op with a data-dependent size has found, out of the memory for as much as there may be."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.shape import elements, normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present


def infer_counted(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, count (i64 [1]) -> y of the shape of x but for `count` along `axis`: a shape that depends on data.

    attrs: axis, label (what finds the elements, for people). The elements of y are the first ones in the memory of x.
    """
    x, count = operand(inputs, 0, "x"), operand(inputs, 1, "count")
    shape = dims(x)
    axis = normalize_axis(attrs["axis"], len(shape))
    if count.dtype != dtypes.i64 or elements(dims(count)) != 1:
        raise ShapeError(f"count must be one i64, got {count.dtype}{text(dims(count))}")
    if count.value is None:
        return [Info(x.dtype, None)]
    return [Info(x.dtype, (*shape[:axis], int(count.value.reshape(-1)[0]), *shape[axis + 1 :]))]


def evaluate_counted(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, count = present(arrays, 0), int(present(arrays, 1).reshape(-1)[0])
    axis = normalize_axis(attrs["axis"], x.ndim)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return [x.reshape(-1)[: int(np.prod(shape))].reshape(shape).copy()]


def with_room(found: Array, axis: int, most: int) -> list[Array]:
    """`found` in the memory of an array of `most` elements along `axis`, and their number: operands of `counted`."""
    room = np.zeros((*found.shape[:axis], most, *found.shape[axis + 1 :]), found.dtype)
    room.reshape(-1)[: found.size] = found.reshape(-1)
    return [room, np.array([found.shape[axis]], np.int64)]
