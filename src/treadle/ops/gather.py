"""gather, gather_elements, gather_nd: elements picked by index. Negative indices count from the end."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import OutOfRangeError, ShapeError
from treadle.graph.shape import normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, need_integer, operand, present, rank_at_least, result


def checked_indices(indices: Array, size: int) -> Array:
    """`indices` as int64, counted from the front. Raises OutOfRangeError if one is not in [-size, size)."""
    wide = indices.astype(np.int64)
    bad = (wide < -size) | (wide >= size)
    if bad.any():
        raise OutOfRangeError(f"index {wide[bad].flat[0]} is out of range for an axis of size {size}")
    return np.asarray(np.where(wide < 0, wide + size, wide))


def infer_gather(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, indices. attrs: axis. `axis` of x is replaced by the axes of `indices`."""
    x, indices = operand(inputs, 0, "x"), operand(inputs, 1, "indices")
    need_integer(indices, "indices")
    shape = rank_at_least(x, 1, "x")
    axis = normalize_axis(attrs["axis"], len(shape))
    return [result(x.dtype, (*shape[:axis], *dims(indices), *shape[axis + 1 :]))]


def evaluate_gather(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, axis = present(arrays, 0), attrs["axis"]
    return [np.asarray(np.take(x, checked_indices(present(arrays, 1), x.shape[axis]), axis=axis))]


def infer_gather_elements(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, indices of equal rank. attrs: axis. result[i, j] = x[indices[i, j], j] for axis 0."""
    x, indices = operand(inputs, 0, "x"), operand(inputs, 1, "indices")
    need_integer(indices, "indices")
    check_elements_fit(rank_at_least(x, 1, "x"), dims(indices), attrs["axis"])
    return [result(x.dtype, dims(indices))]


def check_elements_fit(shape: tuple[int, ...], indices: tuple[int, ...], given: int) -> None:
    """Raise ShapeError unless `indices` has the rank of x and is no larger outside the axis `given`."""
    axis = normalize_axis(given, len(shape))
    if len(indices) != len(shape):
        raise ShapeError(f"indices {text(indices)} must have the rank of x {text(shape)}")
    if any(i > dim for at, (i, dim) in enumerate(zip(indices, shape, strict=True)) if at != axis):
        raise ShapeError(f"indices {text(indices)} are larger than x {text(shape)} outside axis {axis}")


def element_positions(shape: tuple[int, ...], indices: Array, axis: int) -> tuple[Array, ...]:
    """For each element of `indices`, its position in a tensor of `shape`, as one index array an axis."""
    axis = normalize_axis(axis, len(shape))
    grid: list[Array] = list(np.indices(indices.shape))
    grid[axis] = checked_indices(indices, shape[axis])
    return tuple(grid)


def evaluate_gather_elements(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    return [x[element_positions(x.shape, present(arrays, 1), attrs["axis"])]]


def infer_gather_nd(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, indices [..., n]. attrs: batch_dims. The last axis of `indices` addresses n axes of x at once."""
    x, indices = operand(inputs, 0, "x"), operand(inputs, 1, "indices")
    need_integer(indices, "indices")
    shape, index_shape = rank_at_least(x, 1, "x"), rank_at_least(indices, 1, "indices")
    batch, depth = attrs["batch_dims"], int(index_shape[-1])
    if not 0 <= batch < min(len(shape), len(index_shape)):
        raise ShapeError(f"batch_dims {batch} is too large for x {text(shape)} and indices {text(index_shape)}")
    if shape[:batch] != index_shape[:batch]:
        raise ShapeError(f"x {text(shape)} and indices {text(index_shape)} differ in the first {batch} dimensions")
    if not 1 <= depth <= len(shape) - batch:
        raise ShapeError(f"the last axis of indices addresses {depth} axes; x {text(shape)} has {len(shape) - batch}")
    return [result(x.dtype, (*index_shape[:-1], *shape[batch + depth :]))]


def evaluate_gather_nd(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, indices, batch = present(arrays, 0), present(arrays, 1), attrs["batch_dims"]
    lead = indices.shape[:-1]
    grid = [at.reshape(*at.shape, *(1,) * (len(lead) - batch)) for at in np.indices(lead[:batch])]
    found = [checked_indices(indices[..., n], x.shape[batch + n]) for n in range(indices.shape[-1])]
    return [np.asarray(x[(*(np.broadcast_to(at, lead) for at in grid), *found)])]
