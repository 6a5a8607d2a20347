"""How a Winograd convolution is divided into tiles, register blocks and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod, sqrt

from treadle.dtypes import f32
from treadle.graph.dim import ceil_div, minimum
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import Blocks, TileGroup, blocks_to_choose_from
from treadle.plan.kernels.conv.rows import Pair
from treadle.plan.kernels.conv.winograd import Points, WinogradTile
from treadle.plan.target import Target
from treadle.records import dataclass

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

_FEWER: dict[Points, Points] = {_SIX: (sqrt(2.0),)}
"""The last points of larger tiles, with which smaller tiles round about as little as with their own."""

_SECTION_SHARE = 0.22
"""The part of L2 that the transformed weights of a section may fill."""

_GROUP_SHARE = 0.45
"""The part of L2 that the input of a group of tiles, transformed, may fill."""

_INPUT_TILES = 64
"""The least tiles of one block of channels in a chunk of the separate input transform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """All of a way to compute a convolution that does not depend on the number of its tiles.

    `fused`: each chunk transforms its input itself; else a separate call does so before. `section_blocks`: blocks of
    input channels whose weights the kernel transforms at a time; 0 if weights are transformed at compile time. `spare`:
    points of these that the tiles do not use.
    """

    kernel: Pair
    strides: Pair
    points: tuple[Points, Points]
    in_blocks: int
    out_blocks: int
    blocks: Blocks
    fused: bool = False
    section_blocks: int = 0
    spare: tuple[Points, Points] = ((), ())

    @property
    def weight_points(self) -> tuple[Points, Points]:
        """The vertical and horizontal points for which weights are transformed."""
        down, across = (spare + axis for spare, axis in zip(self.spare, self.points, strict=True))
        return down, across

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
        """Vertical and horizontal points of the weights; with stride 2 the last is the middle tap."""
        down, across = (
            len(axis) + 3 if stride == 2 else reach
            for axis, stride, reach in zip(
                self.points, self.strides, _reach(self.weight_points, self.strides), strict=True
            )
        )
        return down, across

    @property
    def used_factors(self) -> Pair:
        """Those of `factors` that the tiles use."""
        down, across = map(min, self.factors, self.reach)
        return down, across

    @property
    def tile(self) -> WinogradTile:
        """The tiles as the kernels' specs describe them."""
        return WinogradTile(
            strides=self.strides, points=self.points, reach=self.reach, side=self.side, spare=self.spare
        )

    @property
    def out_groups(self) -> int:
        """Groups of as many vectors of output channels as a register block has; the last one may be short."""
        return ceil_div(self.out_blocks, self.blocks.vectors)

    @property
    def sections(self) -> int:
        """Sections of the input channels."""
        return ceil_div(self.in_blocks, self.section_blocks) if self.section_blocks else 1

    def tiles_of(self, out_size: Pair) -> Pair:
        """Returns the tiles along a column and along a row of an image of `out_size`."""
        down, across = (ceil_div(pixels, side) for pixels, side in zip(out_size, self.side, strict=True))
        return down, across

    def with_weights_of(self, larger: Method) -> Method:
        """Returns the same tiles at points of `larger`, whose weights they read; `self` if none are as good."""
        blocks_differ = self.blocks.vectors != larger.blocks.vectors
        if blocks_differ or self.section_blocks or larger.section_blocks or self.strides != (1, 1):
            return self
        shared = []
        for own, points in zip(self.points, larger.points, strict=True):
            fewer = points if len(points) == len(own) else _FEWER.get(points, ())
            if len(fewer) != len(own):
                return self
            shared.append((fewer, points[: len(points) - len(fewer)]))
        (down, spare_down), (across, spare_across) = shared
        return replace(self, points=(down, across), spare=(spare_down, spare_across))

    def room(self, target: Target) -> int:
        """Returns the most tiles of a group of several register blocks."""
        tile_bytes = prod(self.reach) * self.in_blocks * target.vector_bytes
        return int(_GROUP_SHARE * target.l2 / (tile_bytes // 2 if self.section_blocks else tile_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling(Method):
    """A way to compute a convolution of a number of tiles, one `group` of them after another.

    A chunk has one group of tiles and `groups_per_chunk` groups of outputs. Costs are in vector multiply-adds: that of
    transforming the input once, that of all else, and both with the load imbalance and repeated transforms.
    """

    images: int
    tiles_down: int
    tiles_across: int
    group: TileGroup
    groups_per_chunk: int
    input_cost: int
    product_cost: int
    total_cost: int

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * self.tiles_down * self.tiles_across

    @property
    def tile_groups(self) -> int:
        """Groups of tiles; the last one may be short."""
        return ceil_div(self.tiles, self.group.size)

    @property
    def group_chunks(self) -> int:
        """Chunks that have the same group of tiles."""
        return ceil_div(self.out_groups, self.groups_per_chunk)

    @property
    def blocks_per_chunk(self) -> int:
        """Blocks of input channels in a chunk of the separate input transform."""
        return minimum(self.in_blocks, ceil_div(_INPUT_TILES, self.group.size))


def methods(shape: ConvShape, target: Target, *, is_open: bool = False) -> Iterator[Method]:
    """Yields the ways to choose from; with `is_open` for kernels that serve any number of tiles."""
    lanes = target.lanes(f32)
    in_blocks, out_blocks = ceil_div(shape.channels, lanes), ceil_div(shape.outputs, lanes)
    for points in ALGORITHMS.get((shape.kernel, shape.strides), ()):
        all_blocks = blocks_to_choose_from(out_blocks, target, is_open=is_open)
        plain = [
            Method(
                kernel=shape.kernel,
                strides=shape.strides,
                points=points,
                in_blocks=in_blocks,
                out_blocks=out_blocks,
                blocks=blocks,
            )
            for blocks in all_blocks
        ]
        for method in plain:
            yield replace(method, fused=True)
            yield method
        for method in plain:
            yield replace(method, section_blocks=_section_blocks(method, target))


def _section_blocks(method: Method, target: Target) -> int:
    """Returns the blocks of channels of equal sections whose weights fill at most _SECTION_SHARE of L2."""
    block_bytes = prod(method.factors) * method.blocks.vectors * target.lanes(f32) * target.vector_bytes
    most = max(1, int(_SECTION_SHARE * target.l2 / block_bytes))
    return ceil_div(method.in_blocks, ceil_div(method.in_blocks, most))


def _reach(points: tuple[Points, Points], strides: Pair) -> Pair:
    down, across = (
        2 * len(axis) + 3 if stride == 2 else 2 * len(axis) + 2 if axis else 1
        for axis, stride in zip(points, strides, strict=True)
    )
    return down, across


def _side(kernel: Pair, strides: Pair, reach: Pair) -> Pair:
    down, across = ((n - taps) // stride + 1 for n, taps, stride in zip(reach, kernel, strides, strict=True))
    return down, across
