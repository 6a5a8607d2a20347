"""Kernel rows and row segments: the loops that all convolution kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.plan.kernel_spec import KernelSpec

Columns = tuple[tuple[int, int], ...]
"""For each pixel of a block, the half-open range of kernel columns that lie inside the input."""


def taps_inside(k: Kernel, spec: KernelSpec, top: Index, height: Index) -> tuple[Index, Index]:
    """The half-open range of kernel rows that lie inside an input of `height` rows, kernel row 0 being at row `top`."""
    rows, dilation = spec["kernel"][0], spec["dilations"][0]
    if not spec["clamp_rows"]:
        return 0, rows
    above = k.div(k.add(k.max(k.sub(0, top), 0), dilation - 1), dilation)
    room = k.max(k.sub(height, top), 0)
    return above, k.min(k.div(k.add(room, dilation - 1), dilation), rows)


@contextmanager
def segment_blocks(k: Kernel, spec: KernelSpec, number: int, first_arg: int) -> Iterator[Index]:
    """A loop over the blocks of a row's segment `number`, giving each one's first pixel.

    The arguments from `first_arg` on are (first pixel, number of blocks) of each segment.
    """
    start, count = (k.arg(first_arg + 2 * number + i) for i in range(2))
    with loop(k, 0, count, name=f"segment{number}") as turn:
        yield k.add(start, k.mul(turn.index, len(spec["segments"][number])))
