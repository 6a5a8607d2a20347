"""Interpolation tables: for each place on a resized axis, which elements it mixes and how much of each.

`resize` is separable, so one table an axis describes it whole; kernels read the same tables.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.ops.op import Array
from treadle.records import dataclass

MODES = ("nearest", "linear", "cubic")
COORDINATE_MODES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class AxisWeights:
    """One axis of a resize: result[i] = sum over t of x[indices[i, t]] * weights[i, t].

    `indices` is int64 and within the input, `weights` float64, both [out, taps]; where `outside` [out]
    is True the result is the extrapolation value instead.
    """

    indices: Array
    weights: Array
    outside: Array


def source_coordinates(
    size: int,
    out: int,
    scale: float,
    coordinate_mode: str,
    roi: tuple[float, float] = (0.0, 1.0),
    *,
    single: bool = False,
) -> Array:
    """Where on the input axis (`size` long) each place of the result (`out` long) lies, as [out] floats.

    With `single` they are computed in float32, as the engines do that users compare nearest
    neighbours with: the choice between two neighbours hangs on the last bit.
    """
    number: Any = np.float32 if single else np.float64
    at: Array = np.arange(out, dtype=number)
    step = number(scale)
    half = number(0.5)
    if coordinate_mode == "asymmetric":
        return np.asarray(at / step)
    if coordinate_mode == "align_corners":
        return np.asarray(at * number(size - 1) / number(max(1, out - 1)))
    if coordinate_mode == "tf_crop_and_resize":
        start, end = (number(edge) for edge in roi)
        if out > 1:
            return np.asarray(start * number(size - 1) + at * (end - start) * number(size - 1) / number(out - 1))
        return np.full(out, half * (start + end) * number(size - 1))
    if coordinate_mode == "pytorch_half_pixel" and out == 1:
        return np.zeros(out, number)
    found = (at + half) / step - half
    if coordinate_mode == "half_pixel_symmetric":
        found = found + number(size) * half * (1 - number(out) / (step * number(size)))
    return np.asarray(found)


def nearest_indices(coordinates: Array, nearest_mode: str) -> Array:
    """The neighbour that `nearest_mode` picks for each coordinate, not yet clamped to the axis."""
    if nearest_mode == "floor":
        picked = np.floor(coordinates)
    elif nearest_mode == "ceil":
        picked = np.ceil(coordinates)
    elif nearest_mode == "round_prefer_ceil":
        picked = np.floor(coordinates + coordinates.dtype.type(0.5))
    else:
        picked = np.ceil(coordinates - coordinates.dtype.type(0.5))
    return np.asarray(picked.astype(np.int64))


def _triangle(distance: Array) -> Array:
    return np.asarray(np.clip(1 - np.abs(distance), 0, 1))


def _cubic(coefficient: float) -> Callable[[Array], Array]:
    def curve(distance: Array) -> Array:
        x = np.abs(distance)
        near = ((coefficient + 2) * x - (coefficient + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * coefficient - 4 * coefficient
        return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0)))

    return curve


def axis_weights(
    size: int,
    out: int,
    scale: float,
    *,
    mode: str,
    coordinate_mode: str,
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    roi: tuple[float, float] = (0.0, 1.0),
) -> AxisWeights:
    """The table of one axis that is resized from `size` to `out` places by the factor `scale`.

    `roi` (start, end as fractions of the axis) counts only for tf_crop_and_resize, where places
    outside the input are extrapolated. Elsewhere elements beyond the ends repeat the last one, or,
    with `exclude_outside`, take no part. `size` must be 1 or more.
    """
    at = source_coordinates(size, out, scale, coordinate_mode, roi, single=mode == "nearest")
    outside = (at < 0) | (at > size - 1) if coordinate_mode == "tf_crop_and_resize" else np.zeros(out, np.bool_)
    if mode == "nearest":
        indices = np.clip(nearest_indices(at, nearest_mode), 0, size - 1)[:, None]
        return AxisWeights(indices, np.ones(indices.shape), outside)
    curve, reach = (_triangle, 1) if mode == "linear" else (_cubic(cubic_coeff), 2)
    shrink = min(scale, 1.0) if antialias else 1.0
    # At a whole coordinate the window ends on it, so that it lies as far left as it can.
    left = np.ceil(at) - 1
    first = math.floor(-reach / shrink) + 1
    offsets = np.arange(first, 2 - first)
    neighbours = left[:, None].astype(np.int64) + offsets
    weights = curve((neighbours - at[:, None]) * shrink)
    if antialias:
        weights /= weights.sum(axis=1, keepdims=True)
    if exclude_outside:
        weights = np.where((neighbours < 0) | (neighbours >= size), 0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return AxisWeights(np.clip(neighbours, 0, size - 1), weights, outside)
