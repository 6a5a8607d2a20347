"""expand (broadcasting to a shape) and tile (repetition)."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape, broadcast, elements, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, integers, numbers, operand, present, result


def infer_expand(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, shape. The result has the shape to which x and `shape` broadcast together."""
    x = operand(inputs, 0, "x")
    wanted = integers(operand(inputs, 1, "shape"), "shape")
    return [Info(x.dtype, None) if wanted is None else result(x.dtype, broadcast(dims(x), wanted))]


def evaluate_expand(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    shape = broadcast(x.shape, numbers(present(arrays, 1)))
    elements(shape)
    return [np.broadcast_to(x, shape).copy()]


def infer_tile(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, repeats (one number an axis)."""
    x = operand(inputs, 0, "x")
    repeats = integers(operand(inputs, 1, "repeats"), "repeats")
    if repeats is None:
        return [Info(x.dtype, None)]
    shape = dims(x)
    return [result(x.dtype, _tiled(shape, repeats))]


def _tiled(shape: StaticShape, repeats: StaticShape) -> StaticShape:
    """`shape` with each axis repeated. Raises ShapeError unless there is a number, 0 or more, for each axis."""
    if len(repeats) != len(shape):
        raise ShapeError(f"repeats must have one number for each of the {len(shape)} axes of x {text(shape)}, "
                         f"got {list(repeats)}")  # fmt: skip
    if any(count < 0 for count in repeats):
        raise ShapeError(f"repeats must be 0 or more, got {list(repeats)}")
    return tuple(dim * count for dim, count in zip(shape, repeats, strict=True))


def evaluate_tile(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, repeats = present(arrays, 0), numbers(present(arrays, 1))
    elements(_tiled(x.shape, repeats))
    return [np.tile(x, repeats)]
