"""conv_strassen: pointwise convolution by Strassen's algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, Lengths, T
from treadle.plan.kernels.conv.tile_product import TileProductSpec

PRODUCTS = {2: 7, 4: 49}
"""Side of a tile -> products that it takes: Strassen's algorithm once, and within itself."""

UNROLL = 4
"""Input channels in a turn of the innermost loop; divides the lanes of every target, and so whole parts of channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrassenConvSpec(TileProductSpec):
    """Parameters. Pointers: out, x, weights, bias (if `bias`), operands of the epilogue.

    x is Blocked(lanes) and has whole parts of channels. Weights are sums, [group, product, channel, vectors * lanes].
    Scratch: one tile, the products of a group of tiles, the sums of its input.
    """

    family: ClassVar[str] = "conv_strassen"

    strides: tuple[int, int]
    side: int
    """Pixels of a tile, and blocks of channels of a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrassenConvArgs(KernelArgs[T]):
    """Arguments. Chunk number = chunk of output groups * `units` + unit. Strides are in elements."""

    pixels: T
    """Output pixels of an image."""
    row_pixels: T
    """Output pixels of a row."""
    group_tiles: T
    """Tiles of a group."""
    tile_groups: T
    """Groups of tiles of an image."""
    units: T
    """Groups of tiles of all images."""
    parts: T
    """Parts of the input channels."""
    input_point: T
    """From the input of one product to that of the next, for a group of tiles."""
    product_point: T
    """From one product to the next, for a group of tiles."""
    x_image: T
    x_block: T
    x_row: T
    out_image: T
    out_block: T
    outputs: T
    """Output channels without those that fill up the last vector."""
    groups: T
    """Groups of `vectors` parts of output channels."""
    groups_per_chunk: T
    counts: tuple[T, ...]
    """Register blocks of each of `heights` in a group of tiles."""

    @classmethod
    def tuple_lengths(cls, spec: StrassenConvSpec) -> Lengths:
        return {"counts": len(spec.heights)}
