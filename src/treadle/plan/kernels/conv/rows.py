"""What kernels share that compute rows of the result in register blocks: direct and depthwise convolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from treadle.plan.kernels.conv.epilogue import BlockedConvSpec
from treadle.records import dataclass

Pair: TypeAlias = "tuple[int, int]"
"""Something vertical and horizontal, or the two ends of a half-open range."""

Columns: TypeAlias = "tuple[Pair, ...]"
"""For each pixel of a register block, the half-open range of kernel columns that lie inside the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvRowsSpec(BlockedConvSpec):
    """Parameters of a convolution that divides each row of the result into segments of equal register blocks."""

    kernel: Pair
    strides: Pair
    dilations: Pair
    pad_left: int
    """Pixels."""
    segments: tuple[Columns, ...]
    """The columns of the blocks of each segment; there are as many as a block has pixels."""
    checked: bool = False
    """Blocks of the last segment are one pixel. Which kernel columns lie inside the input is found at run time."""
    clamp_rows: bool
    """Kernel rows may lie outside the input, and are left out there."""

    @property
    def span_lengths(self) -> Mapping[str, Pair]:
        """The length of `spans`, an argument of each kernel of this kind: two numbers a segment."""
        return {"spans": (len(self.segments), 2)}
