"""gemv: a vector times a matrix whose columns are contiguous."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import T
from treadle.plan.kernels.epilogue import BatchArgs, BatchedSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvSpec(BatchedSpec):
    """Parameters. Pointers: out, vector, matrix, operands of the epilogue. `vectors` is 1. Scratch: one vector."""

    family: ClassVar[str] = "gemv"


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvArgs(BatchArgs[T]):
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
