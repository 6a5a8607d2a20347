"""Loops over kernel rows and row segments that direct and depthwise convolution share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.ranges import taps_inside
from treadle.plan.kernels.conv.rows import Columns, ConvRowsSpec

_UNROLLED = 16
"""A row of a kernel up to this wide is unrolled; a wider one is a loop, so that its width does not make code long."""

AddColumns = Callable[[Index, Columns, range, "list[ir.Value]"], None]
"""Adds the products of a few kernel columns to sums, in place.

Arguments: the number of a column, for each pixel the columns inside the input, and the columns to add; both count from
that column.
"""


def rows_inside(k: Kernel, spec: ConvRowsSpec, top: Index, height: Index) -> tuple[Index, Index]:
    """Returns the half-open range of kernel rows inside an input of `height` rows, if kernel row 0 is at row `top`."""
    if not spec.clamp_rows:
        return 0, spec.kernel[0]
    return taps_inside(k, top, height, spec.kernel[0], spec.dilations[0])


def columns_inside(k: Kernel, spec: ConvRowsSpec, pixel: Index, width: Index) -> tuple[Index, Index]:
    """Returns the half-open range of kernel columns of output pixel `pixel` inside an input of `width` columns."""
    left = k.sub(k.mul(pixel, spec.strides[1]), spec.pad_left)
    return taps_inside(k, left, width, spec.kernel[1], spec.dilations[1])


@contextmanager
def segment_blocks(
    k: Kernel, spec: ConvRowsSpec, spans: tuple[tuple[Index, Index], ...], number: int
) -> Iterator[Index]:
    """A loop over the blocks of a row's segment `number`; yields each one's first pixel."""
    start, count = spans[number]
    with loop(k, 0, count, name=f"segment{number}") as turn:
        yield k.add(start, k.mul(turn.index, len(spec.segments[number])))


def over_columns(
    k: Kernel, columns: Columns, count: int, at_once: int, sums: list[ir.Value], add: AddColumns, *, width: int = 1
) -> list[ir.Value]:
    """Returns `sums` of a register block after `add` has added all `count` columns of a row of the kernel, in order.

    A column is `width` neighbouring ones of the convolution. Where the kernel is wide, those that the same pixels
    multiply are a loop: of `at_once` columns a turn if all pixels do, else of one.
    """
    values = list(sums)
    if count <= _UNROLLED:
        add(0, columns, range(count), values)
        return values
    for first, last in _runs(columns, count, width):
        inside = tuple((low - first * width, high - first * width) for low, high in columns)
        step = at_once if all(low <= 0 < high for low, high in inside) else 1
        looped = (last - first) // step * step if last - first > step else 0
        if looped:
            with loop(k, first, first + looped, step, carry=values, name="columns") as turn:
                values = list(turn.carry)
                add(turn.index, inside, range(step), values)
                turn.next(*values)
            values = turn.carry
        if first + looped < last:
            add(first, inside, range(looped, last - first), values)
    return values


def _runs(columns: Columns, count: int, width: int) -> Iterator[tuple[int, int]]:
    """Yields the half-open ranges of kernel columns that are inside the input for the same pixels."""

    def state(column: int) -> list[bool]:
        return [low <= column * width + i < high for low, high in columns for i in range(width)]

    for _, run in groupby(range(count), state):
        numbers = list(run)
        yield numbers[0], numbers[-1] + 1
