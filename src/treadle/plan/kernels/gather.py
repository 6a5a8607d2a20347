"""gather, gather_elements and gather_nd: rows and elements picked by indices that are known at run time only."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSpec(KernelSpec):
    """Parameters of the three kernels. Pointers: y, x, indices."""

    size: int
    """Bytes of an element."""
    wide: bool
    """Indices are i64, else i32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherSpec(IndexedSpec):
    """Parameters. x has shape (outer, size, length), y (outer, picks, length)."""

    family: ClassVar[str] = "gather"

    single: bool
    """Rows have one element."""
    lines: int
    """Cache lines of a later row to prefetch; may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherElementsSpec(IndexedSpec):
    """Parameters."""

    family: ClassVar[str] = "gather_elements"

    rank: int
    """Dimensions of y and of x, at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherNdSpec(IndexedSpec):
    """Parameters."""

    family: ClassVar[str] = "gather_nd"

    depth: int
    """Axes that one row of indices addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherArgs(KernelArgs[T]):
    """Arguments. A unit is a row of y."""

    units: T
    units_per_chunk: T
    picks: T
    """Number of indices."""
    size: T
    """Length of the axis, in rows."""
    length: T
    """Elements of a row."""
    distance: T
    """How many rows later the prefetched row is copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherElementsArgs(KernelArgs[T]):
    """Arguments, in elements. A unit is a row of y along its last axis."""

    units: T
    units_per_chunk: T
    size: T
    """Length of the axis in x."""
    stride: T
    """Stride of the axis in x."""
    shape: tuple[T, ...]
    """Of y."""
    strides: tuple[T, ...]
    """Of x; 0 for the axis."""

    @classmethod
    def tuple_lengths(cls, spec: GatherElementsSpec) -> Lengths:
        return {"shape": spec.rank, "strides": spec.rank}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherNdArgs(KernelArgs[T]):
    """Arguments, in elements. A unit is a row of y."""

    units: T
    units_per_chunk: T
    picks: T
    """Rows of y in a batch."""
    batch: T
    """Elements of x in a batch."""
    length: T
    """Length of a row."""
    sizes: tuple[T, ...]
    """Lengths of the addressed axes."""
    strides: tuple[T, ...]
    """Strides of the addressed axes."""

    @classmethod
    def tuple_lengths(cls, spec: GatherNdSpec) -> Lengths:
        return {"sizes": spec.depth, "strides": spec.depth}
