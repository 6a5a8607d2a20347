"""lookup: copies whose source offset is the sum of one table entry an axis."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass

OUTSIDE = -1
"""The table entry of an element that takes the fill value. Kernels take every negative entry for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSpec(KernelSpec):
    """Parameters. Pointers: y, x, tables one after another (i64 offsets in elements, or OUTSIDE), fill value."""

    family: ClassVar[str] = "lookup"

    size: int
    """Bytes of an element."""
    rank: int
    """Number of tables, at least 1."""
    single: bool
    """Runs have one element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupArgs(KernelArgs[T]):
    """Arguments. A unit is a row of y: its last table axis, each entry of which stands for a run of elements."""

    units: T
    units_per_chunk: T
    run: T
    """Elements of a run."""
    low: T
    """First entry of the middle of a row, which is one contiguous piece of x."""
    high: T
    """Behind the last such entry."""
    sizes: tuple[T, ...]
    """Entries of each table."""

    @classmethod
    def tuple_lengths(cls, spec: LookupSpec) -> Lengths:
        return {"sizes": spec.rank}
