"""Products of groups of tiles with packed weights, as the kernels of Winograd's algorithm compute them."""

from __future__ import annotations

from treadle.plan.kernels.conv.epilogue import BlockedConvSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TileProductSpec(BlockedConvSpec):
    """Parameters of a convolution that multiplies a group of transformed tiles in register blocks.

    The arguments of each such kernel include `counts`, the number of register blocks of each of `heights`.
    """

    vectors: int
    """Vectors of output channels in a register block."""
    heights: tuple[int, ...]
    """Tiles in register blocks of each kind."""
    unroll: int
    """Input channels in a turn of the innermost loop; divides the number of channels in every loop."""
