"""conv_few_outputs: convolution of a blocked input to a few row-major output channels."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import T
from treadle.plan.kernels.conv.row_major import RowMajorConvArgs, RowMajorConvSpec
from treadle.plan.kernels.conv.rows import Pair
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FewOutputsSpec(RowMajorConvSpec):
    """Parameters. x is Blocked(lanes), the weights are packed, all other operands are row-major."""

    family: ClassVar[str] = "conv_few_outputs"

    outputs: int
    """Output channels, all of which are computed together."""
    pixels: int
    """Output pixels that are computed together: a power of 2, at most `lanes`."""
    last_lanes: int
    """Input channels in the last block."""
    kernel: Pair
    strides: Pair
    dilations: Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class FewOutputsArgs(RowMajorConvArgs[T]):
    """Arguments."""

    blocks: T
    """Blocks of input channels."""
    low: T
    """The first output of a row that reads no column outside x."""
    high: T
    """Behind the last such output."""
