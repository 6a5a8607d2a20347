"""conv_few_outputs: convolution of a blocked input to a few row-major output channels."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.rows import Pair
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FewOutputsSpec(KernelSpec):
    """Parameters. Pointers: out, x, packed weights, bias (if `bias`), operands of the epilogue.

    x is Blocked(lanes); the others are row-major.
    """

    family: ClassVar[str] = "conv_few_outputs"

    dtype: DType
    lanes: int
    outputs: int
    """Output channels, all of which are computed together."""
    pixels: int
    """Output pixels that are computed together: a power of 2, at most `lanes`."""
    last_lanes: int
    """Input channels in the last block."""
    kernel: Pair
    strides: Pair
    dilations: Pair
    bias: bool
    epilogue: Expr | None
    kinds: tuple[str, ...]
    """Of each operand of the epilogue: `row` if it varies along a row, else `one`."""

    @property
    def epilogue_pointer(self) -> int:
        """Number of the pointer of the epilogue's first operand."""
        return BIAS_POINTER + self.bias


@dataclass(frozen=True, slots=True, kw_only=True)
class FewOutputsArgs(KernelArgs[T]):
    """Arguments. Heights, widths and pads are in pixels."""

    units: T
    """Rows of the result, all its channels counted as one."""
    units_per_chunk: T
    blocks: T
    """Blocks of input channels."""
    x_height: T
    x_width: T
    out_height: T
    out_width: T
    pad_top: T
    pad_left: T
    operand_strides: tuple[tuple[T, T, T], ...]
    """For each operand of the epilogue, elements from one image, channel and row to the next; 0 where it broadcasts."""

    @classmethod
    def tuple_lengths(cls, spec: FewOutputsSpec) -> Lengths:
        return {"operand_strides": (len(spec.kinds), 3)}
