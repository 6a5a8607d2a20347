"""What kernels of convolutions with a row-major result share: sizes, the bias and the epilogue."""

from __future__ import annotations

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMajorConvSpec(KernelSpec):
    """Parameters of a convolution whose result is row-major.

    Pointers: out, x, weights, bias (if `bias`), operands of the epilogue.
    """

    dtype: DType
    """Dtype of all tensors."""
    lanes: int
    bias: bool
    epilogue: Expr | None
    """What is applied to finished sums, which are its operand 0."""
    kinds: tuple[str, ...]
    """Of each further operand of the epilogue: `row` if it varies along a row, else `one`."""

    @property
    def epilogue_pointer(self) -> int:
        """Number of the pointer of the epilogue's first operand."""
        return BIAS_POINTER + self.bias


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMajorConvArgs(KernelArgs[T]):
    """Arguments. Heights, widths and pads are in pixels."""

    units: T
    """Rows of the result, with channels that are computed together counted as one."""
    units_per_chunk: T
    x_height: T
    x_width: T
    out_height: T
    out_width: T
    pad_top: T
    pad_left: T
    operand_strides: tuple[tuple[T, T, T], ...]
    """For each operand of the epilogue, elements from one image, channel and row to the next; 0 where it broadcasts."""

    @classmethod
    def tuple_lengths(cls, spec: RowMajorConvSpec) -> Lengths:
        return {"operand_strides": (len(spec.kinds), 3)}
