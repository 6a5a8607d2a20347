"""How a Winograd convolution is cut into tiles, register blocks and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod, sqrt

from treadle.dtypes import f32
from treadle.passes.lower.conv_shape import ConvShape, Pair
from treadle.passes.lower.conv_tile_groups import TileGroup, tile_groups
from treadle.plan.target import Target

Points = tuple[float, ...]

_NONE: Points = ()
_FOUR: Points = (1.0,)
_SIX: Points = (sqrt(0.5), sqrt(2.0))
_EIGHT: Points = (0.5, 1.0, 2.0)
_TEN: Points = (0.5, 0.8, 1.25, 2.0)
"""Points beside 0 and infinity, each standing for its negative too: of the sets tried, those that lose the fewest bits.

Their product is 1, which saves multiplications.
"""

_HALF_THREE: Points = (1.0,)
_HALF_FOUR: Points = (1.0, -1.0)
_HALF_FIVE: Points = (0.5, -1.0, 2.0)
"""The same with stride 2, where half of the pixels are evaluated, each standing for itself alone."""

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
"""For each kernel and its strides, the points down and across that may be taken."""

_SECTION_SHARE = 0.22
"""The part of L2 that the weights of a section, transformed, may fill."""

_INPUT_TILES = 64
"""Tiles of one block of channels that a chunk of the separate input transform does at least."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to do a convolution, a `group` of tiles after another.

    `fused`: each chunk transforms its input itself; else a call of its own does so before. `section_blocks`:
    blocks of input channels whose weights the kernel transforms at a time; 0 if all are when the model is compiled.
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
        """Points down and across at which the kernel has values of its own: with stride 2 the last have its middle tap."""
        down, across = (
            len(axis) + 3 if stride == 2 else reach
            for axis, stride, reach in zip(self.points, self.strides, self.reach, strict=True)
        )
        return down, across

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
        """Blocks of input channels that a chunk of the separate input transform does."""
        return min(self.in_blocks, -(-_INPUT_TILES // self.group.size))


def cuts(shape: ConvShape, target: Target) -> Iterator[Cut]:
    """Every cut worth thinking about."""
    lanes = target.lanes(f32)
    in_blocks, out_blocks = -(-shape.channels // lanes), -(-shape.outputs // lanes)
    for points in ALGORITHMS.get((shape.kernel, shape.strides), ()):
        reach = _reach(points, shape.strides)
        sides = _side(shape.kernel, shape.strides, reach)
        down, across = (-(-pixels // side) for pixels, side in zip(shape.out_size, sides, strict=True))
        tiles = shape.images * down * across
        tile_bytes = prod(reach) * in_blocks * lanes * f32.size
        cut = partial(
            Cut,
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
            yield cut(group=group, fused=True)
            yield cut(group=group)
        for group in tile_groups(tiles, out_blocks, tile_bytes // 2, target):
            plain = cut(group=group)
            yield replace(plain, section_blocks=_section_blocks(plain, target))


def _section_blocks(cut: Cut, target: Target) -> int:
    """Blocks of input channels whose weights fill _SECTION_SHARE of L2, or as many fewer as make sections even."""
    block_bytes = prod(cut.factors) * cut.group.vectors * target.lanes(f32) * target.vector_bytes
    most = max(1, int(_SECTION_SHARE * target.l2 / block_bytes))
    return -(-cut.in_blocks // -(-cut.in_blocks // most))


def _reach(points: tuple[Points, Points], strides: Pair) -> Pair:
    down, across = (
        2 * len(axis) + 3 if stride == 2 else 2 * len(axis) + 2 if axis else 1
        for axis, stride in zip(points, strides, strict=True)
    )
    return down, across


def _side(kernel: Pair, strides: Pair, reach: Pair) -> Pair:
    down, across = ((n - taps) // stride + 1 for n, taps, stride in zip(reach, kernel, strides, strict=True))
    return down, across
