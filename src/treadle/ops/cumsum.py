"""cumsum: running sums along an axis."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import DtypeError
from treadle.graph.shape import normalize_axis
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, result, widened


def infer_cumsum(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axis, exclusive (an element is not part of its own sum), reverse (sums run backwards)."""
    x = operand(inputs, 0, "x")
    if not (x.dtype.is_float or x.dtype.is_integer):
        raise DtypeError(f"x must hold numbers, got {x.dtype}")
    normalize_axis(attrs["axis"], len(dims(x)))
    return [result(x.dtype, dims(x))]


def evaluate_cumsum(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    axis = normalize_axis(attrs["axis"], x.ndim)
    along = np.flip(x, axis) if attrs["reverse"] else x
    with np.errstate(all="ignore"):
        wide = widened(along)
        sums = np.cumsum(wide, axis=axis, dtype=wide.dtype)
        if attrs["exclusive"] and x.shape[axis]:
            kept = np.take(sums, range(x.shape[axis] - 1), axis=axis)
            sums = np.concatenate([np.zeros_like(np.take(sums, [0], axis=axis)), kept], axis=axis)
        sums = np.flip(sums, axis) if attrs["reverse"] else sums
        return [np.ascontiguousarray(sums).astype(x.dtype)]
