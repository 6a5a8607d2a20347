"""pool_blocked and pool_plain: the largest element, or the mean, of windows of an image."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec(KernelSpec):
    """Parameters of both kernels. Pointers: y, x."""

    kind: str
    """`max` or `avg`."""
    dtype: DType
    """Dtype in which taps are reduced."""
    kernel_width: int
    """Taps of a row of the window; 0 if only the argument says so."""
    stride_width: int
    dilation_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPoolSpec(PoolSpec):
    """Parameters for blocked memory."""

    family: ClassVar[str] = "pool_blocked"

    source: DType
    """Dtype of x."""
    result: DType
    """Dtype of y."""
    block: int
    """Channels in a block."""
    tile: int
    """Outputs that are computed together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPoolSpec(PoolSpec):
    """Parameters for row-major memory. Scratch: the columns of a segment, and two vectors more."""

    family: ClassVar[str] = "pool_plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolArgs(KernelArgs[T]):
    """Arguments of both kernels, in pixels. One spatial axis is an image of height 1."""

    units: T
    """Rows of y in all planes; in row-major memory, segments of such rows."""
    units_per_chunk: T
    out_height: T
    out_width: T
    height: T
    width: T
    kernel_height: T
    """Taps."""
    stride_height: T
    dilation_height: T
    pad_top: T
    pad_left: T
    low: T
    """The first output of a row whose window lies inside the row's input."""
    high: T
    """Behind the last such output."""
    kernel_width: T
    """Taps."""
    segment: T
    """Outputs of a segment of a row."""
    counted_height: T
    """Rows whose taps a mean divides by: those of x, and those of its pads if they count."""
    counted_width: T
    """Columns whose taps a mean divides by."""
    counted_top: T
    """Rows of the top pad among `counted_height`."""
    counted_left: T
    """Columns of the left pad among `counted_width`."""
