"""pad: elements added around a tensor, or taken away where a pad is negative."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.dim import maximum, minimum
from treadle.graph.shape import StaticShape, elements, normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, integers, numbers, operand, optional, present, result, same_dtype

MODES = ("constant", "reflect", "edge", "wrap")


def resolved(shape: StaticShape, pads: Sequence[int], axes: Sequence[int] | None) -> tuple[tuple[int, int], ...]:
    """(begin, end) pads of each axis of `shape`; `pads` holds all begins, then all ends, of `axes`.

    Raises ShapeError for a wrong number of pads or a doubled or impossible axis.
    """
    padded = range(len(shape)) if axes is None else [normalize_axis(axis, len(shape)) for axis in axes]
    if len(pads) != 2 * len(padded):
        raise ShapeError(f"wanted {2 * len(padded)} pads, a begin and an end for each padded axis, got {len(pads)}")
    if len(set(padded)) != len(padded):
        raise ShapeError(f"axes {list(padded)} name an axis twice")
    found = [(0, 0)] * len(shape)
    for number, axis in enumerate(padded):
        found[axis] = (pads[number], pads[number + len(padded)])
    return tuple(found)


def infer_pad(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, pads, value (absent: 0), axes (absent: all). attrs: mode."""
    x, pads, axes = operand(inputs, 0, "x"), operand(inputs, 1, "pads"), optional(inputs, 3)
    same_dtype(("x", x), ("value", optional(inputs, 2)))
    if attrs["mode"] not in MODES:
        raise ShapeError(f"mode must be one of {', '.join(MODES)}, got {attrs['mode']!r}")
    given = integers(pads, "pads")
    over = None if axes is None else integers(axes, "axes")
    if given is None or (axes is not None and over is None):
        return [Info(x.dtype, None)]
    shape = dims(x)
    return [result(x.dtype, padded(shape, resolved(shape, given, over), attrs["mode"]))]


def padded(shape: StaticShape, widths: Sequence[tuple[int, int]], mode: str) -> StaticShape:
    """The shape of a tensor of `shape` with these pads.

    Raises ShapeError where they take away more than there is, or copy from where nothing is; LimitError for too many
    elements.
    """
    sizes = tuple(dim + begin + end for dim, (begin, end) in zip(shape, widths, strict=True))
    for axis, (dim, size, (begin, end)) in enumerate(zip(shape, sizes, widths, strict=True)):
        if size < 0:
            raise ShapeError(f"pads {begin} and {end} take away more than axis {axis} of x {text(shape)} has")
        if mode == "constant" or not maximum(begin, end) > 0:
            continue
        if dim + minimum(begin, 0) + minimum(end, 0) <= 0:
            raise ShapeError(f"mode {mode} cannot pad axis {axis} of x {text(shape)}: nothing is there to copy")
    elements(sizes)
    return sizes


def pad(x: Array, widths: Sequence[tuple[int, int]], mode: str, fill: Any) -> Array:
    """`x` with these pads, which may take away more at one end than `x` has, and so a part of what they add at the
    other.

    Raises as padded() does.
    """
    sizes = padded(x.shape, widths, mode)
    if mode != "constant":
        kept = x[
            tuple(slice(max(0, -begin), dim - max(0, -end)) for dim, (begin, end) in zip(x.shape, widths, strict=True))
        ]
        added = [(max(0, begin), max(0, end)) for begin, end in widths]
        return np.pad(kept, added, mode=mode) if added else kept.copy()  # type: ignore[call-overload]
    found = np.full(sizes, fill, x.dtype)
    places, sources = [], []
    for dim, size, (begin, _) in zip(x.shape, sizes, widths, strict=True):
        first, end = max(0, begin), max(0, begin, min(size, begin + dim))
        places.append(slice(first, end))
        sources.append(slice(first - begin, end - begin))
    found[tuple(places)] = x[tuple(sources)]
    return found


def evaluate_pad(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, value, axes = present(arrays, 0), absent_or(arrays, 2), absent_or(arrays, 3)
    widths = resolved(x.shape, numbers(present(arrays, 1)), None if axes is None else numbers(axes))
    fill = value.reshape(())[()] if value is not None else "" if x.dtype == object else x.dtype.type(0)
    return [pad(x, widths, attrs["mode"], fill)]
