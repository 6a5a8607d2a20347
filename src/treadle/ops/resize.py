"""resize: up- and downsampling by nearest neighbour, linear or cubic interpolation."""

import math
from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError, ShapeError
from treadle.graph.dim import equals, floor_int, is_expression, maximum, real_maximum, real_minimum
from treadle.graph.reals import single
from treadle.graph.shape import StaticShape, elements, normalize_axis, text
from treadle.ops.interpolation import COORDINATE_MODES, MODES, NEAREST_MODES, AxisWeights, axis_weights
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, numbers, operand, optional, present, result, widened
from treadle.records import dataclass

_FEW = 64
"""Factors whose numerator is at most this have few bits."""

ASPECTS = ("stretch", "not_larger", "not_smaller")


@dataclass(frozen=True, slots=True)
class Resizing:
    """The resolved operands of a resize: for each axis of x its new size, its scale and its part of `roi`."""

    sizes: StaticShape
    scales: tuple[float, ...]
    rois: tuple[tuple[float, float], ...]


def resizing(
    attrs: Attrs, shape: StaticShape, roi: Array | None, scales: Array | None, sizes: Array | None
) -> Resizing:
    """Resolve the operands of a resize of `shape`.

    Raises ShapeError unless exactly one of `scales` and `sizes` is given, with one number an axis.
    """
    axes = _resized_axes(attrs, len(shape))
    new, factors = _sizes_and_scales(attrs, shape, scales, sizes)
    rois = [(0.0, 1.0)] * len(shape)
    if attrs["coordinate_mode"] == "tf_crop_and_resize":
        if roi is None or roi.size != 2 * len(axes):
            raise ShapeError(f"tf_crop_and_resize wants roi with {2 * len(axes)} numbers: starts, then ends")
        for number, axis in enumerate(axes):
            rois[axis] = (float(roi[number]), float(roi[len(axes) + number]))
    return Resizing(tuple(new), tuple(factors), tuple(rois))


def _resized_axes(attrs: Attrs, rank: int) -> list[int]:
    return [normalize_axis(axis, rank) for axis in attrs["axes"]] if attrs.get("axes") else list(range(rank))


def _sizes_and_scales(
    attrs: Attrs, shape: StaticShape, scales: Array | None, sizes: Array | None
) -> tuple[list[int], list[float]]:
    """The new size and the scale of each axis, which do not depend on `roi`."""
    axes = _resized_axes(attrs, len(shape))
    given = [array for array in (scales, sizes) if array is not None and array.size]
    if len(given) != 1:
        raise ShapeError(f"exactly one of scales and sizes must be given, got {len(given)} of them")
    if given[0].size != len(axes):
        raise ShapeError(f"wanted one number for each of the {len(axes)} resized axes, got {given[0].size}")
    if given[0] is scales:
        return _by_scales(shape, axes, given[0])
    return _by_sizes(shape, axes, given[0], attrs.get("keep_aspect", "stretch"))


def _by_scales(shape: StaticShape, axes: Sequence[int], scales: Array) -> tuple[list[int], list[float]]:
    new, factors = list(shape), [1.0] * len(shape)
    for axis, factor in zip(axes, map(single, scales.reshape(-1).tolist()), strict=True):
        if not (factor > 0 and (is_expression(factor) or math.isfinite(factor))):
            raise ShapeError(f"scales must be positive, got {scales.tolist()}")
        new[axis], factors[axis] = scaled(shape[axis], factor), factor
    return new, factors


def scaled(size: int, factor: float) -> int:
    """`size` * `factor` rounded down: the exact product by a factor of few bits, else that in f32, which ONNX's
    reference and other engines compute. `factor` is an f32."""
    if not is_expression(factor):
        numerator, denominator = factor.as_integer_ratio()
        if numerator <= _FEW:
            return size * numerator // denominator
    if not is_expression(size) and not is_expression(factor):
        return math.floor(np.float32(size) * np.float32(factor))
    return maximum(0, floor_int(single(single(size) * factor)))


def _by_sizes(shape: StaticShape, axes: Sequence[int], sizes: Array, aspect: str) -> tuple[list[int], list[float]]:
    new, factors = list(shape), [1.0] * len(shape)
    for axis, size in zip(axes, numbers(sizes), strict=True):
        if size < 0 or (not equals(size, shape[axis]) and shape[axis] == 0 and size):
            raise ShapeError(f"axis {axis} of x {text(shape)} cannot be resized to {size}")
        new[axis], factors[axis] = size, _ratio(size, maximum(1, shape[axis]))
    if aspect != "stretch":
        factor = (real_minimum if aspect == "not_larger" else real_maximum)(*(factors[axis] for axis in axes))
        for axis in axes:
            new[axis], factors[axis] = maximum(0, floor_int(factor * shape[axis] + 0.5)), factor
    return new, factors


def _ratio(size: int, of: int) -> float:
    """size / of: a number if it is one for every size."""
    quotient = size // of
    return float(quotient) if not is_expression(quotient) and equals(quotient * of, size) else size / of


def changed_axes(attrs: Attrs, shape: StaticShape, found: Resizing) -> list[int]:
    """The axes of a tensor of `shape` that change."""
    changed = []
    for axis, (size, out) in enumerate(zip(shape, found.sizes, strict=True)):
        cropped = attrs["coordinate_mode"] == "tf_crop_and_resize" and found.rois[axis] != (0.0, 1.0)
        if not equals(size, 0) and (cropped or _is_scaled(found.scales[axis]) or not equals(size, out)):
            changed.append(axis)
    return changed


def _is_scaled(scale: float) -> bool:
    """Whether a scale is known not to be 1."""
    return not is_expression(scale) and not math.isclose(scale, 1.0)


def table(attrs: Attrs, shape: StaticShape, found: Resizing, axis: int) -> AxisWeights:
    """The interpolation table of `axis`, which changes. Expressions are pinned."""
    return axis_weights(
        int(shape[axis]),
        int(found.sizes[axis]),
        float(found.scales[axis]),
        mode=attrs["mode"],
        coordinate_mode=attrs["coordinate_mode"],
        nearest_mode=attrs.get("nearest_mode", "round_prefer_floor"),
        cubic_coeff=attrs.get("cubic_coeff", -0.75),
        exclude_outside=bool(attrs.get("exclude_outside", False)),
        antialias=bool(attrs.get("antialias", False)),
        roi=found.rois[axis],
    )


def tables(attrs: Attrs, shape: StaticShape, found: Resizing) -> dict[int, AxisWeights]:
    """The interpolation tables of the axes that change, by axis."""
    return {axis: table(attrs, shape, found, axis) for axis in changed_axes(attrs, shape, found)}


def infer_resize(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, roi, scales, sizes (the last three may be absent; one of scales and sizes must not be).

    attrs: mode, coordinate_mode, nearest_mode (round_prefer_floor), cubic_coeff (-0.75), exclude_outside (False),
    extrapolation (0), antialias (False), axes (all), keep_aspect (stretch); those with a default may be absent. roi,
    which decides no size, need not be known.
    """
    x = operand(inputs, 0, "x")
    for name, allowed in (
        ("mode", MODES),
        ("coordinate_mode", COORDINATE_MODES),
        ("nearest_mode", NEAREST_MODES),
        ("keep_aspect", ASPECTS),
    ):
        if attrs.get(name, allowed[0]) not in allowed:
            raise ShapeError(f"{name} must be one of {', '.join(allowed)}, got {attrs[name]!r}")
    if not (x.dtype.is_float or x.dtype.is_integer or (x.dtype == dtypes.boolean and attrs["mode"] == "nearest")):
        raise DtypeError(f"{x.dtype} cannot be resized by mode {attrs['mode']}")
    arrays = []
    for index in (1, 2, 3):
        info = optional(inputs, index)
        if index != 1 and info is not None and info.value is None and info.shape != (0,):
            return [Info(x.dtype, None)]
        arrays.append(None if info is None else info.value)
    roi, scales, sizes = arrays
    if roi is None and optional(inputs, 1) is not None:
        return [result(x.dtype, tuple(_sizes_and_scales(attrs, dims(x), scales, sizes)[0]))]
    return [result(x.dtype, resizing(attrs, dims(x), roi, scales, sizes).sizes)]


def evaluate_resize(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    found = resizing(attrs, x.shape, *(absent_or(arrays, index) for index in (1, 2, 3)))
    elements(found.sizes)
    resized = x if attrs["mode"] == "nearest" else x.astype(np.float64) if x.dtype.kind in "iu" else widened(x)
    outside = np.zeros((1,) * x.ndim, np.bool_)
    for axis, table in tables(attrs, x.shape, found).items():
        along = (-1, *(1,) * (x.ndim - 1 - axis))
        if attrs["mode"] == "nearest":
            resized = np.take(resized, table.indices[:, 0], axis=axis)
        else:
            total = np.zeros((*resized.shape[:axis], found.sizes[axis], *resized.shape[axis + 1 :]))
            for tap in range(table.indices.shape[1]):
                total += np.take(resized, table.indices[:, tap], axis=axis) * table.weights[:, tap].reshape(along)
            resized = total
        outside = outside | table.outside.reshape(along)
    if outside.any():
        resized = np.where(outside, np.asarray(attrs.get("extrapolation", 0.0), resized.dtype), resized)
    if x.dtype.kind in "iu" and resized.dtype != x.dtype:
        limits = np.iinfo(x.dtype)
        resized = np.clip(np.rint(resized), limits.min, limits.max)
    return [resized.astype(x.dtype)]
