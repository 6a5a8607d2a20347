"""What kernels have in common that end with an epilogue: convolutions, matrix products, attention."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EpilogueSpec(KernelSpec):
    """Parameters of a kernel that applies an epilogue to finished sums. Operands of the epilogue are its last pointers."""

    dtype: DType
    """Dtype of the sums, and of the factors unless the kernel says otherwise."""
    epilogue: Expr | None
    """Its operand 0 is a sum, the others are further operands of the kernel; None: sums are stored as they are."""
    kinds: tuple[str, ...]
    """How each further operand is indexed.

    Of matrix products: `scalar` (one element), `row` (an element a row), `column` (an element a column), `full`. Of
    convolutions: see `codegen.kernels.conv_epilogue`.
    """
