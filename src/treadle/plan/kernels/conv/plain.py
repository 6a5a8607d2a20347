"""conv_plain: convolution of row-major tensors."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConvSpec(KernelSpec):
    """Parameters. Pointers: out, x, weights, bias (if `bias`), operands of the epilogue; all are row-major."""

    family: ClassVar[str] = "conv_plain"

    dtype: DType
    lanes: int
    outputs_at_once: int
    """Output channels that are computed together; divides those of a group."""
    unit_stride: bool
    """The horizontal stride is 1."""
    bias: bool
    epilogue: Expr | None
    kinds: tuple[str, ...]
    """Of each operand of the epilogue: `row` if it varies along a row, else `one`."""

    @property
    def epilogue_pointer(self) -> int:
        """Number of the pointer of the epilogue's first operand."""
        return BIAS_POINTER + self.bias


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConvArgs(KernelArgs[T]):
    """Arguments. Heights, widths, strides, dilations and pads are in pixels."""

    units: T
    """Rows of the result, `outputs_at_once` channels counted as one."""
    units_per_chunk: T
    outputs: T
    """Output channels."""
    group_outputs: T
    group_channels: T
    channels: T
    """Input channels."""
    x_height: T
    x_width: T
    out_height: T
    out_width: T
    kernel_height: T
    kernel_width: T
    stride_down: T
    stride_across: T
    dilation_down: T
    dilation_across: T
    pad_top: T
    pad_left: T
    operand_strides: tuple[tuple[T, T, T], ...]
    """For each operand of the epilogue, elements from one image, channel and row to the next; 0 where it broadcasts."""

    @classmethod
    def tuple_lengths(cls, spec: PlainConvSpec) -> Lengths:
        return {"operand_strides": (len(spec.kinds), 3)}
