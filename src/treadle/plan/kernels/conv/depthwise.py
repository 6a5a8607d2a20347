"""conv_depthwise: convolution with groups that lie within one block of channels."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, Lengths, T
from treadle.plan.kernels.conv.rows import ConvRowsSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConvSpec(ConvRowsSpec):
    """Parameters. Pointers: out, x, packed weights, bias (if `bias`), operands of the epilogue. x is Blocked(lanes)."""

    family: ClassVar[str] = "conv_depthwise"

    source: DType
    """Dtype of x."""
    zero: int
    """The zero point of x, subtracted from each element."""
    width: int
    """Channels of a group; divides `lanes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConvArgs(KernelArgs[T]):
    """Arguments. Chunk number = plane chunk * `row_chunks` + row chunk. Strides are in elements."""

    planes: T
    """Blocks of channels of all images."""
    planes_per_chunk: T
    blocks: T
    """Blocks of channels in an image."""
    rows: T
    """Rows of a plane of the result."""
    rows_per_chunk: T
    row_chunks: T
    x_plane: T
    x_row: T
    x_height: T
    """Rows."""
    pad_top: T
    """Rows."""
    out_plane: T
    out_row: T
    outputs: T
    """Output channels without those that fill up the last vector."""
    spans: tuple[tuple[T, T], ...]
    """The first pixel of each segment, and its number of register blocks."""

    @classmethod
    def tuple_lengths(cls, spec: DepthwiseConvSpec) -> Lengths:
        return spec.span_lengths
