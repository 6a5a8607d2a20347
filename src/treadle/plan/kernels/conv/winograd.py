"""conv_winograd and winograd_input: convolution by Winograd's algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar, TypeAlias

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.plan.kernels.conv.rows import Pair
from treadle.plan.kernels.conv.tile_product import TileProductSpec
from treadle.records import dataclass

Points: TypeAlias = "tuple[float, ...]"
"""Points along one axis beside 0 and infinity; with stride 1 each stands for its negative too."""

Matrix: TypeAlias = "tuple[tuple[float, ...], ...]"
"""Rows of a matrix that transforms the taps of a kernel along one axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradTile:
    """The tiles of a convolution. Pairs are vertical and horizontal."""

    strides: Pair
    points: tuple[Points, Points]
    reach: Pair
    """Input pixels along the sides of a tile; there are as many points."""
    side: Pair
    """Output pixels along the sides of a tile."""
    spare: tuple[Points, Points] = ((), ())
    """Points of the transformed weights that the tiles do not use; they come before `points`. None with stride 2."""

    @property
    def point_count(self) -> int:
        """Points at which a tile is evaluated."""
        return prod(self.reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradSection:
    """Weights that the kernel transforms itself, those of some input channels at a time."""

    channels: int
    """Input channels of a section; a multiple of `lanes`."""
    factor_stride: int
    """Elements between the weights of two points."""
    prefetch_bytes: int
    """Bytes of the next section's taps to prefetch for each channel, register block and point."""
    matrices: tuple[Matrix, Matrix]
    """They transform the taps of a kernel, vertically and horizontally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradInputSpec(KernelSpec):
    """Parameters of the transform of the input. Pointers: out, x. x is Blocked(lanes).

    out is [tile group, point, channel block, tile of the group, lane]. Scratch: one tile.
    """

    family: ClassVar[str] = "winograd_input"

    dtype: DType
    source: DType
    """Dtype of x."""
    lanes: int
    tile: WinogradTile


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradConvSpec(TileProductSpec):
    """Parameters. Pointers: out, x, weights, bias (if `bias`), operands of the epilogue.

    x is Blocked(lanes) if `fused`, else what `winograd_input` made of it. Weights are [group, factor, channel,
    vectors * lanes] if they are transformed, else [group, channel, tap, vectors * lanes]. Scratch: one tile, the
    products of a group of tiles, then its transformed input if `fused`, or the weights of a section.
    """

    family: ClassVar[str] = "conv_winograd"

    source: DType
    """Dtype of x."""
    tile: WinogradTile
    factors: Pair
    """Vertical and horizontal points of the weights. With stride 2 further points of a tile use those of the last."""
    fused: bool
    """The kernel transforms its input itself."""
    section: WinogradSection | None
    """None if weights were transformed when the model was compiled. No kernel is fused and has sections."""
    ahead: int
    """How many bytes behind the transformed weights that a turn reads it prefetches as many; 0: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradTileArgs(KernelArgs[T]):
    """The arguments that both kernels begin with. Strides are in elements."""

    count: T
    """Tiles of all images."""
    down: T
    """Tiles of an image along a column of them."""
    across: T
    """Tiles of an image along a row of them."""
    group_tiles: T
    """Tiles of a group."""
    channels: T
    """Input channels."""
    input_point: T
    """From one point of a group's transformed input to the next."""
    x_image: T
    x_block: T
    x_height: T
    """Pixels, as are the next three."""
    x_width: T
    pad_top: T
    pad_left: T


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradInputArgs(KernelArgs[T]):
    """Arguments of the transform of the input. Chunk number = tile group * `block_chunks` + chunk of channel blocks."""

    tiles: WinogradTileArgs[T]
    block_chunks: T
    blocks_per_chunk: T

    @classmethod
    def inner_kernels(cls, spec: WinogradInputSpec) -> Mapping[str, tuple[type[KernelArgs[Any]], KernelSpec]]:
        return {"tiles": (WinogradTileArgs, spec)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradConvArgs(KernelArgs[T]):
    """Arguments. Chunk number = chunk of output groups * `tile_groups` + tile group. Strides are in elements."""

    tiles: WinogradTileArgs[T]
    tile_groups: T
    groups: T
    """Groups of `vectors` vectors of output channels."""
    groups_per_chunk: T
    out_image: T
    out_block: T
    out_height: T
    """Pixels."""
    out_width: T
    """Pixels."""
    outputs: T
    """Output channels without those that fill up the last vector."""
    product_point: T
    """From the products of one point to those of the next, for a group of tiles."""
    counts: tuple[T, ...]
    """Register blocks of each of `heights` in a group of tiles."""

    @classmethod
    def tuple_lengths(cls, spec: WinogradConvSpec) -> Lengths:
        return {"counts": len(spec.heights)}

    @classmethod
    def inner_kernels(cls, spec: WinogradConvSpec) -> Mapping[str, tuple[type[KernelArgs[Any]], KernelSpec]]:
        return {"tiles": (WinogradTileArgs, spec)}
