"""How a pointwise convolution by Strassen's algorithm is divided into tiles, register blocks and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.dtypes import f32
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import TileGroup, tile_groups
from treadle.plan.kernels.conv.strassen import PRODUCTS
from treadle.plan.target import Target


@dataclass(frozen=True, slots=True)
class Tiling:
    """One way to compute a convolution, one `group` of tiles after another.

    A tile is `side` pixels, a part `side` blocks of channels.
    """

    side: int
    group: TileGroup
    images: int
    tiles: int
    in_parts: int
    out_parts: int

    @property
    def products(self) -> int:
        """Products of smaller matrices that a tile takes."""
        return PRODUCTS[self.side]

    @property
    def tile_groups(self) -> int:
        """Groups of tiles of an image; the last one may be short."""
        return -(-self.tiles // self.group.size)

    @property
    def units(self) -> int:
        """Groups of tiles of all images."""
        return self.images * self.tile_groups

    @property
    def out_groups(self) -> int:
        """Groups of as many parts of output channels as a register block has vectors; the last one may be short."""
        return -(-self.out_parts // self.group.vectors)


def tilings(shape: ConvShape, target: Target) -> Iterator[Tiling]:
    """Yields the tilings to choose from; none if channels do not fill whole parts."""
    lanes = target.lanes(f32)
    blocks, rest = divmod(shape.channels, lanes)
    pixels = shape.out_size[0] * shape.out_size[1]
    for side, products in PRODUCTS.items():
        if rest or blocks % side:
            continue
        in_parts, out_parts = blocks // side, -(-shape.outputs // (lanes * side))
        tiles = -(-pixels // side)
        tile_bytes = products * in_parts * lanes * f32.size
        for group in tile_groups(tiles, out_parts, tile_bytes, target):
            yield Tiling(side, group, shape.images, tiles, in_parts, out_parts)
