"""pad: elements added around a tensor, or taken away where a pad is negative."""

from collections.abc import Sequence

import numpy as np

from weft.errors import ShapeError
from weft.graph.shape import StaticShape, normalize_axis, text
from weft.ops.op import Array, Attrs, Info
from weft.ops.operands import absent_or, dims, integers, numbers, operand, optional, present, result, same_dtype

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
    widths = resolved(shape, given, over)
    sizes = [dim + begin + end for dim, (begin, end) in zip(shape, widths, strict=True)]
    if any(size < 0 for size in sizes):
        raise ShapeError(f"pads {list(given)} take away more than x {text(shape)} has")
    for axis, (dim, (begin, end)) in enumerate(zip(shape, widths, strict=True)):
        if attrs["mode"] != "constant" and dim + min(begin, 0) + min(end, 0) <= 0 < max(begin, end):
            raise ShapeError(
                f"mode {attrs['mode']} cannot pad axis {axis} of x {text(shape)}: nothing is there to copy"
            )
    return [result(x.dtype, sizes)]


def evaluate_pad(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, value, axes = present(arrays, 0), absent_or(arrays, 2), absent_or(arrays, 3)
    widths = resolved(x.shape, numbers(present(arrays, 1)), None if axes is None else numbers(axes))
    kept = x[
        tuple(slice(max(0, -begin), dim - max(0, -end)) for dim, (begin, end) in zip(x.shape, widths, strict=True))
    ]
    added = [(max(0, begin), max(0, end)) for begin, end in widths]
    if not added:
        return [x.copy()]
    if attrs["mode"] == "constant":
        fill = x.dtype.type(0) if value is None else value.reshape(())
        return [np.pad(kept, added, constant_values=fill)]
    return [np.pad(kept, added, mode=attrs["mode"])]
