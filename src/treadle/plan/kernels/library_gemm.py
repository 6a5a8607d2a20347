"""library_gemm: matrix products by a library that the native core calls."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryGemmSpec(KernelSpec):
    """Parameters. Pointers: out, a, b. There is no generator: the kernel is `native/src/providers`."""

    family: ClassVar[str] = "library_gemm"

    provider: str
    """Name of the library."""
    version: str
    """What the library says of itself."""
    dtype: DType
    batch_rank: int
    """Number of batch dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryGemmArgs(KernelArgs[T]):
    """Arguments, behind the library's handle. Strides are in elements."""

    rows: T
    columns: T
    depth: T
    a_row: T
    a_column: T
    b_row: T
    b_column: T
    out_row: T
    batches: T
    """Products."""
    batches_per_chunk: T
    rows_per_chunk: T
    columns_per_chunk: T
    row_chunks: T
    column_chunks: T
    batch_rank: T
    sizes: tuple[T, ...]
    """Of the batch dimensions."""
    a_batch: tuple[T, ...]
    """Strides of a along the batch dimensions."""
    b_batch: tuple[T, ...]
    """Strides of b along the batch dimensions."""
    out_batch: tuple[T, ...]
    """Strides of out along the batch dimensions."""

    @classmethod
    def tuple_lengths(cls, spec: LibraryGemmSpec) -> Lengths:
        return dict.fromkeys(("sizes", "a_batch", "b_batch", "out_batch"), spec.batch_rank)
