"""How direct and depthwise convolutions divide a row of the result into register blocks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby

from treadle.passes.lower.conv.shape import ConvShape
from treadle.plan.kernels.conv.rows import Columns, Pair
from treadle.records import dataclass

EFFICIENCY = 0.9
"""The part of the arithmetic limit that kernels of register blocks are assumed to reach."""

_MAX_PIXELS = 28
"""Pixels of a block: enough that loading a vector of weights takes little of the time; wider blocks compile slowly."""

_HALF_REGISTERS = 6
"""Registers to leave free where sums are half vectors: with fewer the compiler would spill."""

MAX_SEGMENTS = 8
"""The most segments of a row whose width is a number: more would make a huge kernel."""

_VARIANT_COST = 0.01
"""How much slower a tiling may be that needs one width of block instead of two: half the code to compile."""


@dataclass(frozen=True, slots=True)
class RowTiling:
    """A row of the result, divided into segments of equal register blocks.

    A block is `vectors` vectors of output channels by as many pixels as its segment's columns. `spans`: the first pixel
    and the number of blocks of each segment. `flat`: an image is one long row. `halved`: of the last vector only half
    of the lanes are computed. `checked`: blocks of the last segment are one pixel, of which nothing is known, and
    other blocks may share pixels. `in_runs`: the row is divided at run time, and segments have no spans.
    """

    vectors: int
    flat: bool
    segments: tuple[Columns, ...]
    spans: tuple[Pair, ...]
    halved: bool = False
    checked: bool = False
    in_runs: bool = False

    @property
    def blocks(self) -> int:
        """Blocks in a row."""
        return sum(count for _, count in self.spans)

    @property
    def widest(self) -> int:
        """Pixels of the widest block."""
        return max(map(len, self.segments))


def divide_row(width: int, most: int) -> list[int]:
    """Returns the widths of the fewest blocks of at most `most` pixels that fill `width`: nearly equal, descending."""
    count = -(-width // most)
    small, larger = divmod(width, count)
    return [small + 1] * larger + [small] * (count - larger)


def segments_of(widths: list[int], columns: Callable[[int], Pair]) -> tuple[tuple[Columns, ...], tuple[Pair, ...]]:
    """Returns the segments and spans of a row of blocks of `widths`: equal neighbours share a segment.

    Along a row the first and the last of the columns never grow, so that all pixels between two equal ones are equal.
    """
    starts = itertools.accumulate(widths[:-1], initial=0)
    blocks = [(_columns_of(columns, start, width), start) for start, width in zip(starts, widths, strict=True)]
    segments, spans = [], []
    for segment, run in groupby(blocks, key=lambda block: block[0]):
        equal = list(run)
        segments.append(segment)
        spans.append((equal[0][1], len(equal)))
    return tuple(segments), tuple(spans)


def _columns_of(columns: Callable[[int], Pair], start: int, width: int) -> Columns:
    """Returns the columns of the `width` pixels that begin at `start`."""
    first, last = columns(start), columns(start + width - 1)
    return (first,) * width if first == last else tuple(columns(start + p) for p in range(width))


@lru_cache(maxsize=1024)
def choose_row_tiling(shape: ConvShape, lanes: int, registers: int, *, halves: bool = False) -> RowTiling:
    """Returns the cheapest tiling for a convolution with vectors of `lanes`, in `registers` vector registers.

    With `halves`, a block of all outputs may compute only half of the last vector's lanes, if no more are filled: CPUs
    that take two cycles for a vector take one for half of it.
    """
    height, width = shape.out_size
    flat = shape.is_pointwise
    row = height * width if flat else width
    best: tuple[float, int, bool, list[int]] | None = None
    for vectors, halved, most in candidates(shape, lanes, registers, halves=halves):
        for pixels in range(most, most // 2, -1):
            widths = divide_row(row, pixels)
            filled = vectors - 0.5 * halved
            cost = sum(count * block_cost(width, filled) for width, count in Counter(widths).items())
            cost *= (1.0 + _VARIANT_COST * (widths[0] - widths[-1])) / (row * vectors)
            if best is None or cost < best[0]:
                best = (cost, vectors, halved, widths)
    assert best is not None, "one vector always fits"
    _, vectors, halved, widths = best
    segments, spans = segments_of(widths, (lambda _: (0, 1)) if flat else shape.columns)
    return RowTiling(vectors, flat, segments, spans, halved)


def candidates(shape: ConvShape, lanes: int, registers: int, *, halves: bool) -> Iterator[tuple[int, bool, int]]:
    """Yields the vectors that a block may have, whether the last one is halved, and the most pixels beside them.

    The arguments are those of `choose_row_tiling`.
    """
    group_vectors = -(-shape.group_outputs // lanes)
    spare = 1 if registers >= 32 else 2
    half = halves and shape.groups == 1 and 0 < shape.outputs % lanes <= lanes // 2
    for vectors in range(1, 5):
        if group_vectors % vectors:
            continue
        halved = half and vectors == group_vectors
        room = registers - vectors - spare - _HALF_REGISTERS * halved
        yield vectors, halved, max(1, min(_MAX_PIXELS, room // vectors))


def block_cost(pixels: int, vectors: float) -> float:
    """Returns the relative time of a block for one input channel and tap.

    Multiply-adds and loads are executed in parallel; fewer than 8 sums wait for each other; weights come from a more
    distant cache than pixels.
    """
    return max(pixels * vectors, pixels + vectors, 8) + 0.3 * (pixels + 3 * vectors)
