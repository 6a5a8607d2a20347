"""search_sorted: binary searches in sequences."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSortedSpec(KernelSpec):
    """Parameters. Pointers: positions (i64), sequences of shape (rows, size), values of shape (rows, columns)."""

    family: ClassVar[str] = "search_sorted"

    dtype: DType
    right: bool
    """A value goes behind equal elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSortedArgs(KernelArgs[T]):
    """Arguments. A unit is a value."""

    units: T
    units_per_chunk: T
    size: T
    """Elements of a sequence."""
    columns: T
    """Values for one sequence."""
