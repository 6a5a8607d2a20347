"""GridSample of images: rows of channels gathered at the pixels around each place, and mixed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
"""Attribute `mode` as it is written before opset 20, and since -> what it means."""

_TO_ROWS, _TO_IMAGE = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where places are on one axis of the image: the pixels [N, rows, columns] that each mixes, as f32, each with its
    weight (None: all of it) and the size of the axis as i64: arithmetic of whole sizes keeps open ones open."""

    pixels: list[tuple[Value, Value | None]]
    size: Value


def grid_sample(node: OnnxNode, b: Builder) -> Value | None:
    """GridSample(x, grid) of x [N, C, H, W] in modes nearest and linear; other forms are left to the reference."""
    mode = _MODES.get(node.choice("mode", "linear", *_MODES))
    padding = node.choice("padding_mode", "zeros", "zeros", "border", "reflection")
    aligned = node.flag("align_corners", default=False)
    x, grid = node.input(0), node.input(1)
    if mode == "cubic" or node.rank() != 4 or node.rank(1) != 4 or x.dtype not in (dtypes.f32, dtypes.f16):
        return None
    wide = _as(grid, dtypes.f32, b)
    parts = [b.add("squeeze", part, b.integers([3])) for part in b.add_many("split", [wide], 2, axis=3, parts=2)]
    across, down = (
        _axis(part, _size(x, axis, b), padding, b, aligned=aligned, nearest=mode == "nearest")
        for part, axis in zip(parts, (3, 2), strict=True)
    )
    rows = b.add("reshape", b.add("transpose", x, perm=_TO_ROWS), _rows_of(x, b), allowzero=False)
    images = _images(x, b)
    total = None
    for (row, row_weight), (column, column_weight) in product(down.pixels, across.pixels):
        places = b.add("add", b.add("mul", _kept(row, down, b), across.size), _kept(column, across, b))
        found = b.add("gather", rows, b.add("add", places, images), axis=0)
        weights = [weight for weight in (row_weight, column_weight) if weight is not None]
        if padding == "zeros":
            weights += [_inside(row, down, b), _inside(column, across, b)]
        for weight in weights:
            found = b.add("mul", found, _as(b.add("unsqueeze", weight, b.integers([3])), x.dtype, b))
        total = found if total is None else b.add("add", total, found)
    assert total is not None, "each axis has a pixel"
    return b.add("transpose", total, perm=_TO_IMAGE)


def _size(x: Value, axis: int, b: Builder) -> Value:
    """The size of an axis of `x` as an i64 scalar."""
    return b.add("reshape", b.add("shape", x, start=axis, end=axis + 1), b.integers([]), allowzero=False)


def _rows_of(x: Value, b: Builder) -> Value:
    """[pixels of all images, channels]"""
    return b.add("concat", b.integers([-1]), b.add("shape", x, start=1, end=2), axis=0)


def _images(x: Value, b: Builder) -> Value:
    """Where the pixels of each image start in the rows, i64 [N, 1, 1]."""
    count, height, width = (_size(x, axis, b) for axis in (0, 2, 3))
    numbers = b.add("range", b.scalar(0, dtypes.i64), count, b.scalar(1, dtypes.i64))
    return b.add("unsqueeze", b.add("mul", numbers, b.add("mul", height, width)), b.integers([1, 2]))


def _axis(part: Value, size: Value, padding: str, b: Builder, *, aligned: bool, nearest: bool) -> _Axis:
    """The pixels around places from -1 to 1, the centres of the outer pixels if `aligned`, else their outer edges."""
    one, half = b.scalar(1.0, dtypes.f32), b.scalar(0.5, dtypes.f32)
    shifted = b.add("add", part, one)
    last = _last(size, b)
    if aligned:
        place = b.add("mul", b.add("mul", shifted, half), last)
    else:
        place = b.add("mul", b.add("sub", b.add("mul", shifted, _as(size, dtypes.f32, b)), one), half)
    if nearest:
        place = b.add("round", place)
    if padding == "border":
        place = b.add("clip", place, b.scalar(0.0, dtypes.f32), last)
    elif padding == "reflection":
        place = _reflected(place, size, b, aligned=aligned)
    if nearest:
        return _Axis([(place, None)], size)
    low = b.add("floor", place)
    upper = b.add("sub", place, low)
    return _Axis([(low, b.add("sub", one, upper)), (b.add("add", low, one), upper)], size)


def _reflected(place: Value, size: Value, b: Builder, *, aligned: bool) -> Value:
    """Places mirrored at both ends as often as it takes."""
    start = b.scalar(0.0 if aligned else -0.5, dtypes.f32)
    span = b.add("sub", size, b.scalar(1, dtypes.i64)) if aligned else size
    both = _as(b.add("mul", span, b.scalar(2, dtypes.i64)), dtypes.f32, b)
    along = b.add("fmod", b.add("abs", b.add("sub", place, start)), both)
    back = b.add("sub", both, along)
    return b.add("add", start, b.add("min", along, back))


def _kept(pixel: Value, axis: _Axis, b: Builder) -> Value:
    """The pixel, or the nearest that the image has, as i64."""
    return _as(b.add("clip", pixel, b.scalar(0.0, dtypes.f32), _last(axis.size, b)), dtypes.i64, b)


def _last(size: Value, b: Builder) -> Value:
    """The number of the last pixel of an axis as f32."""
    return _as(b.add("sub", size, b.scalar(1, dtypes.i64)), dtypes.f32, b)


def _inside(pixel: Value, axis: _Axis, b: Builder) -> Value:
    """1 for a pixel that the image has, else 0."""
    size = _as(axis.size, dtypes.f32, b)
    is_inside = b.add("and", b.add("ge", pixel, b.scalar(0.0, dtypes.f32)), b.add("lt", pixel, size))
    return b.add("cast", is_inside, to=dtypes.f32)


def _as(value: Value, to: DType | None, b: Builder) -> Value:
    return value if value.dtype == to or to is None else b.add("cast", value, to=to)
