"""How a direct convolution is cut: register blocks, segments of rows, chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from treadle.passes.lower.conv_shape import ConvShape, Pair
from treadle.plan.target import Target

Columns = tuple[Pair, ...]

EFFICIENCY = 0.9
"""The part of the arithmetic limit that kernels of register blocks are assumed to reach."""

_MAX_PIXELS = 28
"""What one vector of outputs needs so that loading it takes little beside loading the pixels; more take long to compile."""

_HALF_REGISTERS = 6
"""Registers to leave free where half vectors are among the sums: with fewer the compiler would spill."""

_VARIANT_COST = 0.01
"""How much slower a cut may be that needs one width of block instead of two: half the code to compile."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A register block and how rows are cut into blocks.

    `segments`: for each, the kernel columns of each pixel of its blocks (their number is the block's width);
    `spans`: for each segment, its first pixel and number of blocks. `flat`: an image is one long row.
    `halved`: of the last vector only half of the lanes are computed.
    """

    vectors: int
    flat: bool
    segments: tuple[Columns, ...]
    spans: tuple[Pair, ...]
    halved: bool = False

    @property
    def blocks(self) -> int:
        """Blocks in a row."""
        return sum(count for _, count in self.spans)


def cut_row(width: int, most: int) -> list[int]:
    """The widths of the fewest blocks of at most `most` pixels that fill `width`, wider ones first, nearly equal."""
    count = -(-width // most)
    small, larger = divmod(width, count)
    return [small + 1] * larger + [small] * (count - larger)


def cut_segments(widths: list[int], columns: Callable[[int], Pair]) -> tuple[tuple[Columns, ...], tuple[Pair, ...]]:
    """Segments and spans of a row cut into blocks of `widths`: alike neighbours share a segment."""
    starts = [sum(widths[:i]) for i in range(len(widths))]
    blocks = [
        (tuple(columns(start + p) for p in range(width)), start) for start, width in zip(starts, widths, strict=True)
    ]
    segments, spans = [], []
    for alike, run in groupby(blocks, key=lambda block: block[0]):
        members = list(run)
        segments.append(alike)
        spans.append((members[0][1], len(members)))
    return tuple(segments), tuple(spans)


def sum_registers(target: Target, *, quads: bool = False) -> int:
    """The vector registers that a block may use: one less where products need a register before they are added, and
    four less where quads are multiplied in halves."""
    if quads and not target.has_vnni:
        return target.registers - 4
    return target.registers - (target.isa == "generic")


@lru_cache(maxsize=1024)
def choose_tile(shape: ConvShape, lanes: int, registers: int, *, halves: bool = False) -> Tile:
    """The tile for a convolution whose vectors have `lanes`, in `registers` vector registers.

    With `halves`, a tile of all outputs may compute only half of the last vector's lanes, if no more are filled: CPUs
    that take two steps for a vector take one for half of it.
    """
    height, width = shape.out_size
    flat = shape.is_pointwise
    row = height * width if flat else width
    group_vectors = -(-shape.group_outputs // lanes)
    spare = 1 if registers >= 32 else 2
    half = halves and shape.groups == 1 and 0 < shape.outputs % lanes <= lanes // 2
    best: tuple[float, int, bool, list[int]] | None = None
    for vectors in range(1, 5):
        if group_vectors % vectors:
            continue
        halved = half and vectors == group_vectors
        room = registers - vectors - spare - _HALF_REGISTERS * halved
        most = max(1, min(_MAX_PIXELS, room // vectors))
        for pixels in range(most, most // 2, -1):
            widths = cut_row(row, pixels)
            filled = vectors - 0.5 * halved
            cost = sum(count * _block_cost(width, filled) for width, count in Counter(widths).items())
            cost *= (1.0 + _VARIANT_COST * (widths[0] - widths[-1])) / (row * vectors)
            if best is None or cost < best[0]:
                best = (cost, vectors, halved, widths)
    assert best is not None, "one vector always fits"
    _, vectors, halved, widths = best
    segments, spans = cut_segments(widths, (lambda _: (0, 1)) if flat else shape.columns)
    return Tile(vectors, flat, segments, spans, halved)


def depthwise_tile(shape: ConvShape, registers: int) -> Tile:
    """The tile for a convolution whose groups lie within single blocks of channels."""
    segments, spans = cut_segments(cut_row(shape.out_size[1], 14 if registers >= 32 else 7), shape.columns)
    return Tile(1, flat=False, segments=segments, spans=spans)


def _block_cost(pixels: int, vectors: float) -> float:
    """The relative time of a block per input channel and tap.

    Multiply-adds and loads go side by side; a few sums alone would wait for each other; weights come from
    farther away than pixels.
    """
    return max(pixels * vectors, pixels + vectors, 8) + 0.3 * (pixels + 3 * vectors)
