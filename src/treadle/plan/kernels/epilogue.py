"""What the kernels of matrix products have in common: register blocks that end with an epilogue."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EpilogueSpec(KernelSpec):
    """Parameters of a kernel that applies an epilogue to finished sums. The epilogue's operands are its last
    pointers."""

    dtype: DType
    """Dtype of the sums, and of the factors unless the kernel says otherwise."""
    vectors: int
    """Vectors in a row of a register block."""
    epilogue: Expr | None
    """Its operand 0 is a sum, the others are further operands of the kernel; None: sums are stored as they are."""
    kinds: tuple[str, ...]
    """How each further operand is indexed: `scalar` (one element), `row` (an element a row), `column` (an element a
    column) or `full`."""
