"""conv_plain: convolution of row-major tensors."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import T
from treadle.plan.kernels.conv.row_major import RowMajorConvArgs, RowMajorConvSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConvSpec(RowMajorConvSpec):
    """Parameters. All operands are row-major."""

    family: ClassVar[str] = "conv_plain"

    outputs_at_once: int
    """Output channels that are computed together; divides those of a group."""
    unit_stride: bool
    """The horizontal stride is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConvArgs(RowMajorConvArgs[T]):
    """Arguments. Strides and dilations are in pixels."""

    outputs: T
    """Output channels."""
    group_outputs: T
    group_channels: T
    channels: T
    """Input channels."""
    kernel_height: T
    kernel_width: T
    stride_down: T
    stride_across: T
    dilation_down: T
    dilation_across: T
