"""gemm_pack: the right factor of a product as panels."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmPackSpec(KernelSpec):
    """Parameters. Pointers: packed [.., panels, depth, vectors * lanes], b [.., depth, columns]."""

    family: ClassVar[str] = "gemm_pack"

    dtype: DType
    vectors: int
    """Vectors in a row of a panel."""
    source: str
    """How b lies in memory: see `copy_panel`."""
    batch_rank: int
    """Number of batch dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmPackArgs(KernelArgs[T]):
    """Arguments. Strides are in elements. A unit is a panel."""

    columns: T
    depth: T
    panels: T
    """Panels of one matrix."""
    b_depth: T
    b_column: T
    units: T
    """Panels of all matrices."""
    units_per_chunk: T
    sizes: tuple[T, ...]
    """Of the batch dimensions."""
    b_batch: tuple[T, ...]
    """Strides of b along the batch dimensions."""

    @classmethod
    def tuple_lengths(cls, spec: GemmPackSpec) -> Lengths:
        return {"sizes": spec.batch_rank, "b_batch": spec.batch_rank}
