"""How the products of tiles in Winograd's algorithm are divided: groups, register blocks, chunks.

Costs are in vector multiply-adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.passes.lower.conv.rows import divide_row
from treadle.plan.target import Target

_MAX_HEIGHT = 16
_MAX_VECTORS = 4
_GROUP_BLOCKS = (1, 2, 3, 4, 6, 8)
_GROUP_SHARE = 0.45
"""The part of L2 that the input of a group of tiles, transformed, may fill."""

_LEAST_SUMS = 8
"""Register blocks of fewer sums wait for the latency of multiply-adds."""

_LEAST_HEIGHT = 3
"""Register blocks of fewer tiles wait for weights from L2."""

_USEFUL_CHUNKS = 8
_LEAST_CHUNK_COST = 16_000.0
"""A short convolution has _USEFUL_CHUNKS chunks, unless each would cost less than _LEAST_CHUNK_COST."""


@dataclass(frozen=True, slots=True)
class TileGroup:
    """`size` tiles whose products are computed together.

    They are covered by register blocks of `heights` tiles by `vectors` vectors of output channels, `counts` of each.
    """

    size: int
    vectors: int
    heights: tuple[int, ...]
    counts: tuple[int, ...]

    def cost(self, channels: int, block_cost: float) -> float:
        """Returns the cost of a product with `channels` input channels; a block costs `block_cost` more."""
        return sum(
            count * (channels * max(height * self.vectors, _LEAST_SUMS, _LEAST_HEIGHT * self.vectors) + block_cost)
            for height, count in zip(self.heights, self.counts, strict=True)
        )


def tile_groups(tiles: int, out_vectors: int, tile_bytes: int, target: Target) -> Iterator[TileGroup]:
    """Yields the groups to choose from; `tile_bytes`: of one tile's input; `out_vectors`: of all outputs."""
    room = _GROUP_SHARE * target.l2 / tile_bytes
    for vectors in range(min(2, out_vectors), min(_MAX_VECTORS, out_vectors) + 1):
        most = max(1, min(_MAX_HEIGHT, (target.registers - vectors - 1) // vectors))
        sizes = {-(-tiles // -(-tiles // (most * blocks))) for blocks in _GROUP_BLOCKS}
        for size in sorted(sizes):
            if size > max(most, room):
                continue
            widths = divide_row(size, most)
            heights = tuple(sorted(set(widths), reverse=True))
            yield TileGroup(size, vectors, heights, tuple(widths.count(height) for height in heights))


def useful_chunks(cost: float) -> float:
    """Returns the least number of chunks that a convolution of `cost` should have."""
    return min(float(_USEFUL_CHUNKS), max(1.0, cost / _LEAST_CHUNK_COST))


def groups_of_chunk(out_groups: int, tile_groups: int, chunks: float) -> int:
    """Returns the groups of output channels of a chunk, which has one group of tiles, for about `chunks` chunks."""
    return -(-out_groups // min(out_groups, max(1, round(chunks / tile_groups))))


def odd(vectors: int) -> int:
    """Returns `vectors` or one more: strides of an even number of vectors would share few sets of the cache."""
    return vectors // 2 * 2 + 1
