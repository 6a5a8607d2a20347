"""How the products of a group of tiles in Winograd's algorithm are divided into register blocks."""

from __future__ import annotations

from treadle.graph.dim import ceil_div, is_expression, maximum, minimum
from treadle.passes.lower.conv.rows import divide_row
from treadle.plan.target import Target
from treadle.records import dataclass

_MAX_HEIGHT = 16
_MAX_VECTORS = 4

_LEAST_HEIGHT = 3
"""Register blocks of fewer tiles take the same time: see native/src/winograd.cpp."""

_MAX_OPEN_HEIGHTS = 4
"""The most heights of register blocks of an open number of tiles: each has code of its own."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The register blocks to choose from: `least` to `most` tiles by `vectors` vectors of output channels."""

    vectors: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class TileGroup:
    """`size` tiles whose products are computed together.

    They are covered by register blocks of `heights` tiles by `vectors` vectors of output channels, `counts` of each.
    """

    size: int
    vectors: int
    heights: tuple[int, ...]
    counts: tuple[int, ...]


def blocks_to_choose_from(out_vectors: int, target: Target, *, is_open: bool) -> list[Blocks]:
    """Returns register blocks for `out_vectors` vectors of output channels.

    If the number of tiles `is_open`, groups of few tiles are filled up to the least height that keeps the multipliers
    busy, and there are few heights above it.
    """
    found = []
    for vectors in range(min(2, out_vectors), min(_MAX_VECTORS, out_vectors) + 1):
        most = max(1, min(_MAX_HEIGHT, (target.registers - vectors - 1) // vectors))
        if is_open:
            least = min(most, max(_LEAST_HEIGHT, ceil_div(target.machine.sums_in_flight, vectors)))
            found.append(Blocks(vectors, least, min(most, least + _MAX_OPEN_HEIGHTS - 1)))
        else:
            found.append(Blocks(vectors, 1, most))
    return found


def group_of(size: int, blocks: Blocks) -> TileGroup:
    """Returns a group of `size` tiles in as few and as equal register blocks as possible.

    If `size` is an expression, there are all heights, and the counts of those that a group lacks are 0.
    """
    if not is_expression(size):
        widths = divide_row(size, blocks.most)
        heights = tuple(sorted(set(widths), reverse=True))
        return TileGroup(size, blocks.vectors, heights, tuple(widths.count(height) for height in heights))
    number = ceil_div(size, blocks.most)
    height = size // number
    larger = size - height * number
    heights = tuple(range(blocks.most, blocks.least - 1, -1))
    exceeds = {tiles: minimum(1, maximum(0, height - tiles + 1)) for tiles in range(blocks.least, blocks.most + 2)}
    is_height = {tiles: exceeds[tiles] - exceeds[tiles + 1] for tiles in heights}
    counts = tuple(is_height[tiles] * (number - larger) + is_height.get(tiles - 1, 0) * larger for tiles in heights)
    return TileGroup(size, blocks.vectors, heights, counts)


def odd(vectors: int) -> int:
    """Returns `vectors` or one more: strides of an even number of vectors would share few sets of the cache."""
    return vectors // 2 * 2 + 1
