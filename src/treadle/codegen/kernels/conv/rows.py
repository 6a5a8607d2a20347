"""Loops over kernel rows and row segments that direct and depthwise convolution share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.plan.kernels.conv.rows import ConvRowsSpec


def taps_inside(k: Kernel, spec: ConvRowsSpec, top: Index, height: Index) -> tuple[Index, Index]:
    """Returns the half-open range of kernel rows inside an input of `height` rows, if kernel row 0 is at row `top`."""
    rows, dilation = spec.kernel[0], spec.dilations[0]
    if not spec.clamp_rows:
        return 0, rows
    above = k.div(k.add(k.max(k.sub(0, top), 0), dilation - 1), dilation)
    room = k.max(k.sub(height, top), 0)
    return above, k.min(k.div(k.add(room, dilation - 1), dilation), rows)


@contextmanager
def segment_blocks(
    k: Kernel, spec: ConvRowsSpec, spans: tuple[tuple[Index, Index], ...], number: int
) -> Iterator[Index]:
    """A loop over the blocks of a row's segment `number`; yields each one's first pixel."""
    start, count = spans[number]
    with loop(k, 0, count, name=f"segment{number}") as turn:
        yield k.add(start, k.mul(turn.index, len(spec.segments[number])))
