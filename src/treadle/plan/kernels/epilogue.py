"""What the kernels of matrix products have in common: register blocks that end with an epilogue."""

from __future__ import annotations

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


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

    @property
    def given(self) -> int:
        """How many numbers the epilogue takes from the arguments."""
        return 0 if self.epilogue is None else sum(step.op == "given" for step in self.epilogue.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedSpec(EpilogueSpec):
    """Parameters of a kernel that computes a batch of products."""

    batch_rank: int
    """Number of batch dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArgs(KernelArgs[T]):
    """Arguments of such a kernel, in elements: the batch dimensions."""

    sizes: tuple[T, ...]
    """Of the batch dimensions."""
    a_batch: tuple[T, ...]
    """Strides of a along the batch dimensions."""
    b_batch: tuple[T, ...]
    """Strides of b along the batch dimensions."""
    out_batch: tuple[T, ...]
    """Strides of out along the batch dimensions."""
    epilogue_batch: tuple[tuple[T, ...], ...]
    """Strides of each operand of the epilogue along the batch dimensions."""

    @classmethod
    def tuple_lengths(cls, spec: BatchedSpec) -> Lengths:
        rank = spec.batch_rank
        each = dict.fromkeys(("sizes", "a_batch", "b_batch", "out_batch"), rank)
        return {**each, "epilogue_batch": (len(spec.kinds), rank)}
