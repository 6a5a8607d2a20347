"""How a Winograd convolution is divided into tiles, register blocks and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod, sqrt

from treadle.dtypes import f32
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import TileGroup, tile_groups
from treadle.plan.kernels.conv.rows import Pair
from treadle.plan.kernels.conv.winograd import Points, WinogradTile
from treadle.plan.target import Target

_NONE: Points = ()
_FOUR: Points = (1.0,)
_SIX: Points = (sqrt(0.5), sqrt(2.0))
_EIGHT: Points = (0.5, 1.0, 2.0)
_TEN: Points = (0.5, 0.8, 1.25, 2.0)
"""Points beside 0 and infinity, each standing for its negative too: the sets with the smallest rounding error.

Their product is 1, which saves multiplications.
"""

_HALF_THREE: Points = (1.0,)
_HALF_FOUR: Points = (1.0, -1.0)
_HALF_FIVE: Points = (0.5, -1.0, 2.0)
"""The same for stride 2, where half of the pixels are evaluated; negatives are points of their own."""

ALGORITHMS: dict[tuple[Pair, Pair], tuple[tuple[Points, Points], ...]] = {
    ((3, 3), (1, 1)): ((_FOUR, _FOUR), (_SIX, _FOUR), (_SIX, _SIX)),
    ((5, 5), (1, 1)): ((_SIX, _SIX),),
    ((1, 3), (1, 1)): ((_NONE, _SIX),),
    ((3, 1), (1, 1)): ((_SIX, _NONE),),
    ((1, 5), (1, 1)): ((_NONE, _SIX), (_NONE, _EIGHT)),
    ((5, 1), (1, 1)): ((_SIX, _NONE), (_EIGHT, _NONE)),
    ((1, 7), (1, 1)): ((_NONE, _EIGHT), (_NONE, _TEN)),
    ((7, 1), (1, 1)): ((_EIGHT, _NONE), (_TEN, _NONE)),
    ((3, 3), (2, 2)): ((_HALF_THREE, _HALF_THREE), (_HALF_FOUR, _HALF_FOUR), (_HALF_FIVE, _HALF_FIVE)),
}
"""Kernel and strides -> the vertical and horizontal points to choose from."""

_SECTION_SHARE = 0.22
"""The part of L2 that the transformed weights of a section may fill."""

_INPUT_TILES = 64
"""The least tiles of one block of channels in a chunk of the separate input transform."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """One way to compute a convolution, one `group` of tiles after another.

    `fused`: each chunk transforms its input itself; else a separate call does so before. `section_blocks`: blocks of
    input channels whose weights the kernel transforms at a time; 0 if weights are transformed at compile time.
    """

    kernel: Pair
    strides: Pair
    points: tuple[Points, Points]
    images: int
    tiles_down: int
    tiles_across: int
    in_blocks: int
    out_blocks: int
    group: TileGroup
    fused: bool = False
    section_blocks: int = 0

    @property
    def reach(self) -> Pair:
        """Input pixels along the sides of a tile."""
        return _reach(self.points, self.strides)

    @property
    def side(self) -> Pair:
        """Output pixels along the sides of a tile."""
        return _side(self.kernel, self.strides, self.reach)

    @property
    def factors(self) -> Pair:
        """Vertical and horizontal points at which weights differ; with stride 2 the last is the middle tap."""
        down, across = (
            len(axis) + 3 if stride == 2 else reach
            for axis, stride, reach in zip(self.points, self.strides, self.reach, strict=True)
        )
        return down, across

    @property
    def tile(self) -> WinogradTile:
        """The tiles as the kernels' specs describe them."""
        return WinogradTile(strides=self.strides, points=self.points, reach=self.reach, side=self.side)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * self.tiles_down * self.tiles_across

    @property
    def tile_groups(self) -> int:
        """Groups of tiles; the last one may be short."""
        return -(-self.tiles // self.group.size)

    @property
    def out_groups(self) -> int:
        """Groups of as many vectors of output channels as a register block has; the last one may be short."""
        return -(-self.out_blocks // self.group.vectors)

    @property
    def sections(self) -> int:
        """Sections of the input channels."""
        return -(-self.in_blocks // self.section_blocks) if self.section_blocks else 1

    @property
    def blocks_per_chunk(self) -> int:
        """Blocks of input channels in a chunk of the separate input transform."""
        return min(self.in_blocks, -(-_INPUT_TILES // self.group.size))


def tilings(shape: ConvShape, target: Target) -> Iterator[Tiling]:
    """Yields the tilings to choose from."""
    lanes = target.lanes(f32)
    in_blocks, out_blocks = -(-shape.channels // lanes), -(-shape.outputs // lanes)
    for points in ALGORITHMS.get((shape.kernel, shape.strides), ()):
        reach = _reach(points, shape.strides)
        sides = _side(shape.kernel, shape.strides, reach)
        down, across = (-(-pixels // side) for pixels, side in zip(shape.out_size, sides, strict=True))
        tiles = shape.images * down * across
        tile_bytes = prod(reach) * in_blocks * lanes * f32.size
        tiling = partial(
            Tiling,
            shape.kernel,
            shape.strides,
            points,
            images=shape.images,
            tiles_down=down,
            tiles_across=across,
            in_blocks=in_blocks,
            out_blocks=out_blocks,
        )
        for group in tile_groups(tiles, out_blocks, tile_bytes, target):
            yield tiling(group=group, fused=True)
            yield tiling(group=group)
        for group in tile_groups(tiles, out_blocks, tile_bytes // 2, target):
            plain = tiling(group=group)
            yield replace(plain, section_blocks=_section_blocks(plain, target))


def _section_blocks(tiling: Tiling, target: Target) -> int:
    """Returns the blocks of channels of equal sections whose weights fill at most _SECTION_SHARE of L2."""
    block_bytes = prod(tiling.factors) * tiling.group.vectors * target.lanes(f32) * target.vector_bytes
    most = max(1, int(_SECTION_SHARE * target.l2 / block_bytes))
    return -(-tiling.in_blocks // -(-tiling.in_blocks // most))


def _reach(points: tuple[Points, Points], strides: Pair) -> Pair:
    down, across = (
        2 * len(axis) + 3 if stride == 2 else 2 * len(axis) + 2 if axis else 1
        for axis, stride in zip(points, strides, strict=True)
    )
    return down, across


def _side(kernel: Pair, strides: Pair, reach: Pair) -> Pair:
    down, across = ((n - taps) // stride + 1 for n, taps, stride in zip(reach, kernel, strides, strict=True))
    return down, across
