"""reorder: from plain to blocked channels, and back."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderSpec(KernelSpec):
    """Parameters. Pointers: target, source. Plain memory is [N, C, pixels], blocked [N, blocks, pixels, block]."""

    family: ClassVar[str] = "reorder"

    dtype: DType
    block: int
    """Channels in a block."""
    side: int
    """Pixels and channels of a tile that is transposed in registers; divides `block`."""
    to_blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderArgs(KernelArgs[T]):
    """Arguments."""

    units: T
    """Tiles of pixels, in all blocks of all images."""
    units_per_chunk: T
    channels: T
    blocks: T
    """Blocks of channels in an image."""
    pixels: T
    """Pixels of an image."""
