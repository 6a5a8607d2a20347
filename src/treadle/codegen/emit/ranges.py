"""Ranges of indices: of flattened index spaces, their coordinates and offsets in memory; of the taps of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop


@contextmanager
def segments(
    k: Kernel, begin: Index, end: Index, inner: Index, name: str = "outer"
) -> Iterator[tuple[ir.Value, Index, Index]]:
    """The units begin..end of the flattened space (outer, inner), grouped by outer: yields (outer, lo, hi).

    lo..hi is the part of 0..inner that belongs to the range; `inner` must not be 0.
    """
    first = k.div(begin, inner)
    stop = k.div(k.add(end, k.sub(inner, 1)), inner)
    with loop(k, first, stop, name=name) as outer:
        base = k.mul(outer.index, inner)
        yield outer.index, k.max(k.sub(begin, base), 0), k.min(k.sub(end, base), inner)


def coordinates(k: Kernel, index: Index, dims: Sequence[Index]) -> list[Index]:
    """The coordinates of flat `index` in an array of shape `dims` (its first dimension is not needed)."""
    position: list[Index] = []
    for dim in reversed(dims[1:]):
        position.append(k.rem(index, dim))
        index = k.div(index, dim)
    if dims:
        position.append(index)
    return position[::-1]


def offset_at(k: Kernel, position: Sequence[Index], strides: Sequence[Index], start: Index = 0) -> Index:
    """start + the sum of coordinate * stride over the dimensions of `position`, the first ones of `strides`."""
    offset = start
    for coordinate, stride in zip(position, strides, strict=False):
        offset = k.add(offset, k.mul(coordinate, stride))
    return offset


def taps_inside(k: Kernel, start: Index, size: Index, taps: Index, dilation: Index) -> tuple[Index, Index]:
    """Returns the half-open range of taps t in 0..taps with 0 <= start + t * dilation < size.

    It is empty if its end is not behind its start.
    """
    up = k.sub(dilation, 1)
    low = k.div(k.add(k.max(k.sub(0, start), 0), up), dilation)
    high = k.div(k.add(k.max(k.sub(size, start), 0), up), dilation)
    return low, k.min(high, taps)
