"""How a Winograd convolution is cut into tiles, register blocks and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.conv_tiles import cut_row
from weft.plan.target import Target

Points = tuple[float, ...]

F2: Points = (1.0,)
F4: Points = (sqrt(0.5), sqrt(2.0))
"""Points (beside 0 and infinity, and each with its negative) for tiles of 2 x 2 and of 4 x 4 outputs.

For 4 x 4 these lose the fewest bits of the sets tried; their product is 1, which saves multiplications too.
"""

FLOAT = 4
_MAX_HEIGHT = 16
_MAX_VECTORS = 4
_GROUP_BLOCKS = (1, 2, 3, 4, 6, 8)
_GROUP_SHARE = 0.45
"""The part of L2 that the transformed input of a group of tiles may fill."""
_INPUT_TILES = 64
"""Tiles of one block of channels that a chunk of the separate input transform does at least."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to do a convolution.

    Tiles are taken in groups of `group_tiles`, which register blocks of `heights` tiles by `vectors` vectors of
    output channels cover, `counts` of each. `fused`: each chunk transforms its input itself; else a call of its
    own does so before.
    """

    points: Points
    vectors: int
    heights: tuple[int, ...]
    counts: tuple[int, ...]
    images: int
    tiles_down: int
    tiles_across: int
    group_tiles: int
    in_blocks: int
    out_blocks: int
    fused: bool

    @property
    def side(self) -> int:
        """Output pixels along the side of a tile."""
        return 2 * len(self.points)

    @property
    def reach(self) -> int:
        """Input pixels along the side of a tile."""
        return self.side + 2

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * self.tiles_down * self.tiles_across

    @property
    def tile_groups(self) -> int:
        """Groups of tiles; the last one may be short."""
        return -(-self.tiles // self.group_tiles)

    @property
    def groups(self) -> int:
        """Groups of `vectors` vectors of output channels; the last one may be short."""
        return -(-self.out_blocks // self.vectors)

    @property
    def blocks_per_chunk(self) -> int:
        """Blocks of input channels that a chunk of the separate input transform does."""
        return min(self.in_blocks, -(-_INPUT_TILES // self.group_tiles))


def cuts(shape: ConvShape, target: Target) -> Iterator[Cut]:
    """Every cut worth thinking about."""
    lanes = target.vector_bytes // FLOAT
    in_blocks, out_blocks = -(-shape.channels // lanes), -(-shape.outputs // lanes)
    for points in (F2, F4):
        side = 2 * len(points)
        down, across = (-(-pixels // side) for pixels in shape.out_size)
        tiles = shape.images * down * across
        room = _GROUP_SHARE * target.l2 / ((side + 2) ** 2 * in_blocks * lanes * FLOAT)
        for vectors in range(min(2, out_blocks), min(_MAX_VECTORS, out_blocks) + 1):
            most = max(1, min(_MAX_HEIGHT, (target.registers - vectors - 1) // vectors))
            sizes = {-(-tiles // -(-tiles // (most * blocks))) for blocks in _GROUP_BLOCKS}
            for size in sorted(sizes):
                if size > max(most, room):
                    continue
                widths = cut_row(size, most)
                heights = tuple(sorted(set(widths), reverse=True))
                counts = tuple(widths.count(height) for height in heights)
                for fused in (True, False):
                    yield Cut(
                        points,
                        vectors,
                        heights,
                        counts,
                        images=shape.images,
                        tiles_down=down,
                        tiles_across=across,
                        group_tiles=size,
                        in_blocks=in_blocks,
                        out_blocks=out_blocks,
                        fused=fused,
                    )
