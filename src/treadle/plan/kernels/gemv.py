"""gemv: a vector times a matrix whose columns are contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, Lengths, T
from treadle.plan.kernels.epilogue import EpilogueSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvSpec(EpilogueSpec):
    """Parameters. Pointers: out, vector, matrix, operands of the epilogue. `vectors` is 1. Scratch: one vector."""

    family: ClassVar[str] = "gemv"

    batch_rank: int
    """Number of batch dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvArgs(KernelArgs[T]):
    """Arguments. Strides are in elements. A unit is as many columns as a vector has lanes."""

    columns: T
    """Columns of the matrix."""
    depth: T
    """Elements of a column."""
    b_column: T
    blocks: T
    """Units of one product."""
    units: T
    """Units of all products."""
    units_per_chunk: T
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
    def tuple_lengths(cls, spec: GemvSpec) -> Lengths:
        rank = spec.batch_rank
        batch = (len(spec.kinds), rank)
        return {"sizes": rank, "a_batch": rank, "b_batch": rank, "out_batch": rank, "epilogue_batch": batch}
