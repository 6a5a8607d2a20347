"""scatter_elements and scatter_nd: a copy of x with some elements replaced, or combined with updates."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import text
from treadle.ops.gather import check_elements_fit, checked_indices, element_positions
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, need_integer, operand, present, rank_at_least, result, same_dtype

REDUCTIONS = ("none", "add", "mul", "max", "min")
_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _check(attrs: Attrs, x: Info, indices: Info, updates: Info) -> None:
    if attrs["reduction"] not in REDUCTIONS:
        raise ShapeError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {attrs['reduction']!r}")
    need_integer(indices, "indices")
    same_dtype(("x", x), ("updates", updates))


def _scatter(attrs: Attrs, x: Array, where: tuple[Array, ...], updates: Array) -> list[Array]:
    scattered = x.copy()
    with np.errstate(all="ignore"):
        if attrs["reduction"] == "none":
            scattered[where] = updates
        else:
            _COMBINE[attrs["reduction"]].at(scattered, where, updates)
    return [scattered]


def infer_scatter_elements(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, indices, updates. attrs: axis, reduction. For axis 0: x[indices[i, j], j] = updates[i, j]."""
    x, indices, updates = (operand(inputs, index, name) for index, name in enumerate(("x", "indices", "updates")))
    _check(attrs, x, indices, updates)
    check_elements_fit(rank_at_least(x, 1, "x"), dims(indices), attrs["axis"])
    if dims(updates) != dims(indices):
        raise ShapeError(f"updates {text(dims(updates))} must have the shape of indices {text(dims(indices))}")
    return [result(x.dtype, dims(x))]


def evaluate_scatter_elements(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, indices, updates = (present(arrays, index) for index in range(3))
    return _scatter(attrs, x, element_positions(x.shape, indices, attrs["axis"]), updates)


def infer_scatter_nd(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, indices [..., n], updates. attrs: reduction. x[indices[i]] = updates[i], addressing n axes at once."""
    x, indices, updates = (operand(inputs, index, name) for index, name in enumerate(("x", "indices", "updates")))
    _check(attrs, x, indices, updates)
    shape, index_shape = rank_at_least(x, 1, "x"), rank_at_least(indices, 1, "indices")
    depth = int(index_shape[-1])
    if not 1 <= depth <= len(shape):
        raise ShapeError(f"the last axis of indices addresses {depth} axes; x {text(shape)} has {len(shape)}")
    wanted = (*index_shape[:-1], *shape[depth:])
    if dims(updates) != wanted:
        raise ShapeError(f"updates must be {text(wanted)}, got {text(dims(updates))}")
    return [result(x.dtype, shape)]


def evaluate_scatter_nd(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, indices, updates = (present(arrays, index) for index in range(3))
    where = tuple(checked_indices(indices[..., n], x.shape[n]) for n in range(indices.shape[-1]))
    return _scatter(attrs, x, where, updates)
