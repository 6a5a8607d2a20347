"""GridSample of images: rows of channels gathered at the pixels around each place, and mixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from itertools import product

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.records import dataclass

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
"""Attribute `mode` as it is written before opset 20, and since -> what it means."""

_CUBIC = -0.75
"""The coefficient of cubic convolution."""

_TO_ROWS, _TO_IMAGE = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where places are on one axis of the image: the pixels [N, rows, columns] that each mixes, as f32, each with its
    weight (None: all of it) and the size of the axis as i64: arithmetic of whole sizes keeps open ones open."""

    pixels: list[tuple[Value, Value | None]]
    size: Value


def grid_sample(node: OnnxNode, b: Builder) -> Value | None:
    """GridSample(x, grid) of x [N, C, H, W]; images of other ranks are left to the reference."""
    mode = _MODES.get(node.choice("mode", "linear", *_MODES))
    padding = node.choice("padding_mode", "zeros", "zeros", "border", "reflection")
    aligned = node.flag("align_corners", default=False)
    x, grid = node.input(0), node.input(1)
    if mode is None or node.rank() != 4 or node.rank(1) != 4 or x.dtype not in (dtypes.f32, dtypes.f16):
        return None
    wide = b.cast(grid, dtypes.f32)
    parts = [b.add("squeeze", part, b.integers([3])) for part in b.add_many("split", [wide], 2, axis=3, parts=2)]
    across, down = (
        _axis(part, b.size(x, axis), padding, b, aligned=aligned, mode=mode)
        for part, axis in zip(parts, (3, 2), strict=True)
    )
    rows = b.add("reshape", b.add("transpose", x, perm=_TO_ROWS), _rows_of(x, b), allowzero=False)
    images = _images(x, b)
    dims = node.dims()
    channels = None if dims is None else dims[1]
    if mode != "nearest" and x.dtype == dtypes.f32 and channels is not None and channels > 1:
        return b.add("transpose", _bags(rows, _pixels(images, down, across, padding, b), b), perm=_TO_IMAGE)
    total = None
    for places, weights in _pixels(images, down, across, padding, b):
        found = b.add("gather", rows, places, axis=0)
        for weight in weights:
            found = b.add("mul", found, b.cast(b.add("unsqueeze", weight, b.integers([3])), x.dtype))
        total = found if total is None else b.add("add", total, found)
    assert total is not None, "each axis has a pixel"
    return b.add("transpose", total, perm=_TO_IMAGE)


def _pixels(images: Value, down: _Axis, across: _Axis, padding: str, b: Builder) -> Iterator[tuple[Value, list[Value]]]:
    """Yields each pixel that a place mixes: its row in the table of all pixels [N, rows, columns], and factors of its
    weight, of the same shape. The nearest pixel has no factors unless it may be outside."""
    for (row, row_weight), (column, column_weight) in product(down.pixels, across.pixels):
        places = b.add("add", b.add("mul", _kept(row, down, b), across.size), _kept(column, across, b))
        weights = [weight for weight in (row_weight, column_weight) if weight is not None]
        if padding == "zeros":
            weights += [_inside(row, down, b), _inside(column, across, b)]
        yield b.add("add", places, images), weights


def _bags(rows: Value, pixels: Iterable[tuple[Value, list[Value]]], b: Builder) -> Value:
    """[N, rows, columns, channels]: for each place the sum of its pixels times their weights, as one gather_reduce."""
    places, weights = [], []
    for place, factors in pixels:
        places.append(b.add("unsqueeze", place, b.integers([3])))
        weights.append(b.add("unsqueeze", reduce(partial(b.add, "mul"), factors), b.integers([3])))
    indices, table = b.add("concat", *places, axis=3), b.add("concat", *weights, axis=3)
    return b.add("gather_reduce", rows, indices, table, how="reduce_sum", axes=(3,), keepdims=False)


def _rows_of(x: Value, b: Builder) -> Value:
    """[pixels of all images, channels]"""
    return b.add("concat", b.integers([-1]), b.add("shape", x, start=1, end=2), axis=0)


def _images(x: Value, b: Builder) -> Value:
    """Where the pixels of each image start in the rows, i64 [N, 1, 1]."""
    count, height, width = (b.size(x, axis) for axis in (0, 2, 3))
    return b.add("unsqueeze", b.add("mul", b.numbers(count), b.add("mul", height, width)), b.integers([1, 2]))


def _axis(part: Value, size: Value, padding: str, b: Builder, *, aligned: bool, mode: str) -> _Axis:
    """The pixels around places from -1 to 1, the centres of the outer pixels if `aligned`, else their outer edges."""
    one, half = b.scalar(1.0, dtypes.f32), b.scalar(0.5, dtypes.f32)
    shifted = b.add("add", part, one)
    last, nearest = _last(size, b), mode == "nearest"
    if aligned:
        place = b.add("mul", b.add("mul", shifted, half), last)
    else:
        place = b.add("mul", b.add("sub", b.add("mul", shifted, b.cast(size, dtypes.f32)), one), half)
    if nearest:
        place = b.add("round", place)
    if padding == "border" and mode != "cubic":
        place = b.add("clip", place, b.scalar(0.0, dtypes.f32), last)
    elif padding == "reflection":
        place = _reflected(place, size, b, aligned=aligned)
    if nearest:
        return _Axis([(place, None)], size)
    low = b.add("floor", place)
    upper = b.add("sub", place, low)
    if mode == "cubic":
        pixels = [b.add("add", low, b.scalar(float(step), dtypes.f32)) for step in range(-1, 3)]
        if padding == "reflection":
            pixels = [_reflected(pixel, size, b, aligned=aligned) for pixel in pixels]
        return _Axis(list(zip(pixels, _cubic_weights(upper, b), strict=True)), size)
    return _Axis([(low, b.add("sub", one, upper)), (b.add("add", low, one), upper)], size)


def _cubic_weights(part: Value, b: Builder) -> list[Value]:
    """The weights of the two pixels before a place and of the two after it (Keys' cubic convolution).

    `part` is the distance of the place from the pixel before it, from 0 to 1.
    """
    one = b.scalar(1.0, dtypes.f32)
    rest = b.add("sub", one, part)
    return [
        _cubic_far(b.add("add", part, one), b),
        _cubic_near(part, b),
        _cubic_near(rest, b),
        _cubic_far(b.add("add", rest, one), b),
    ]


def _cubic_near(distance: Value, b: Builder) -> Value:
    """The weight of a pixel up to 1 away."""
    square = b.add("mul", distance, distance)
    slope = b.add("sub", b.add("mul", distance, b.scalar(_CUBIC + 2, dtypes.f32)), b.scalar(_CUBIC + 3, dtypes.f32))
    return b.add("add", b.add("mul", slope, square), b.scalar(1.0, dtypes.f32))


def _cubic_far(distance: Value, b: Builder) -> Value:
    """The weight of a pixel 1 to 2 away."""
    found = b.scalar(_CUBIC, dtypes.f32)
    for factor in (-5.0, 8.0, -4.0):
        found = b.add("add", b.add("mul", found, distance), b.scalar(_CUBIC * factor, dtypes.f32))
    return found


def _reflected(place: Value, size: Value, b: Builder, *, aligned: bool) -> Value:
    """Places mirrored at both ends as often as it takes."""
    start = b.scalar(0.0 if aligned else -0.5, dtypes.f32)
    span = b.add("sub", size, b.scalar(1, dtypes.i64)) if aligned else size
    both = b.cast(b.add("mul", span, b.scalar(2, dtypes.i64)), dtypes.f32)
    along = b.add("fmod", b.add("abs", b.add("sub", place, start)), both)
    back = b.add("sub", both, along)
    return b.add("add", start, b.add("min", along, back))


def _kept(pixel: Value, axis: _Axis, b: Builder) -> Value:
    """The pixel, or the nearest that the image has, as i64."""
    return b.cast(b.add("clip", pixel, b.scalar(0.0, dtypes.f32), _last(axis.size, b)), dtypes.i64)


def _last(size: Value, b: Builder) -> Value:
    """The number of the last pixel of an axis as f32."""
    return b.cast(b.add("sub", size, b.scalar(1, dtypes.i64)), dtypes.f32)


def _inside(pixel: Value, axis: _Axis, b: Builder) -> Value:
    """1 for a pixel that the image has, else 0."""
    size = b.cast(axis.size, dtypes.f32)
    is_inside = b.add("and", b.add("ge", pixel, b.scalar(0.0, dtypes.f32)), b.add("lt", pixel, size))
    return b.add("cast", is_inside, to=dtypes.f32)
