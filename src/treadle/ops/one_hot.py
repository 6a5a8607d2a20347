"""one_hot: a new axis that is "on" at the given index and "off" elsewhere."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import KernelError, ShapeError
from treadle.graph.shape import elements, normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, numbers, operand, present, result


def infer_one_hot(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """indices, depth (one number), values ([off, on]). attrs: axis, where the new axis goes."""
    indices, depth, values = (operand(inputs, index, name) for index, name in enumerate(("indices", "depth", "values")))
    if dims(values) != (2,):
        raise ShapeError(f"values must be [off, on], got shape {text(dims(values))}")
    if elements(dims(depth)) != 1:
        raise ShapeError(f"depth must be one number, got shape {text(dims(depth))}")
    shape = dims(indices)
    axis = normalize_axis(attrs["axis"], len(shape) + 1)
    if depth.value is None:
        return [Info(values.dtype, None)]
    (count,) = numbers(depth.value.reshape(1))
    return [result(values.dtype, (*shape[:axis], count, *shape[axis:]))]


def evaluate_one_hot(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Indices in [-depth, depth) are meant; for any other the whole row is "off"."""
    indices, values = present(arrays, 0), present(arrays, 2)
    depth = int(present(arrays, 1).reshape(()))
    if depth < 0:
        raise KernelError(f"depth must be 0 or more, got {depth}")
    axis = normalize_axis(attrs["axis"], indices.ndim + 1)
    elements((*indices.shape, depth))
    wide = indices.astype(np.int64)
    wide = np.expand_dims(np.where(wide < 0, wide + depth, wide), axis)
    positions = np.arange(depth).reshape(-1, *(1,) * (indices.ndim - axis))
    return [np.where(wide == positions, values[1], values[0]).astype(values.dtype)]
