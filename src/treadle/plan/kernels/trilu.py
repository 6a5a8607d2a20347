"""trilu: one triangle of matrices copied, the other one set to zero."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TriluSpec(KernelSpec):
    """Parameters. Pointers: y, x."""

    family: ClassVar[str] = "trilu"

    size: int
    """Bytes of an element."""
    upper: bool
    """The upper triangle is copied, else the lower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriluArgs(KernelArgs[T]):
    """Arguments. A unit is a row of a matrix."""

    units: T
    units_per_chunk: T
    rows: T
    """Rows of a matrix."""
    columns: T
    diagonal: T
    """Column minus row of the elements at the edge of the triangle."""
