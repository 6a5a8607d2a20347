"""Loops over kernel rows and row segments that direct and depthwise convolution share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.plan.kernels.conv.rows import ConvRowsSpec


def taps_inside(k: Kernel, spec: ConvRowsSpec, top: Index, height: Index) -> tuple[Index, Index]:
    """Returns the half-open range of kernel rows inside an input of `height` rows, if kernel row 0 is at row `top`."""
    if not spec.clamp_rows:
        return 0, spec.kernel[0]
    return _inside(k, spec, 0, top, height)


def columns_inside(k: Kernel, spec: ConvRowsSpec, pixel: Index, width: Index) -> tuple[Index, Index]:
    """Returns the half-open range of kernel columns of output pixel `pixel` inside an input of `width` columns.

    The range is empty if its end is not behind its start.
    """
    return _inside(k, spec, 1, k.sub(k.mul(pixel, spec.strides[1]), spec.pad_left), width)


def _inside(k: Kernel, spec: ConvRowsSpec, axis: int, first: Index, size: Index) -> tuple[Index, Index]:
    taps, dilation = spec.kernel[axis], spec.dilations[axis]
    before = k.div(k.add(k.max(k.sub(0, first), 0), dilation - 1), dilation)
    room = k.max(k.sub(size, first), 0)
    return before, k.min(k.div(k.add(room, dilation - 1), dilation), taps)


@contextmanager
def segment_blocks(
    k: Kernel, spec: ConvRowsSpec, spans: tuple[tuple[Index, Index], ...], number: int
) -> Iterator[Index]:
    """A loop over the blocks of a row's segment `number`; yields each one's first pixel."""
    start, count = spans[number]
    with loop(k, 0, count, name=f"segment{number}") as turn:
        yield k.add(start, k.mul(turn.index, len(spec.segments[number])))
