"""inverse: matrices factored into triangles, which are solved for the columns of the identity."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

VECTORS = 4
"""Vectors of a row of the result that are solved at a time: their sums do not wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseSpec(KernelSpec):
    """Parameters. Pointers: y, x. The scratch holds `size` i64, then a matrix."""

    family: ClassVar[str] = "inverse"

    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseArgs(KernelArgs[T]):
    """Arguments. A unit is a matrix."""

    units: T
    units_per_chunk: T
    size: T
    """Rows of a matrix."""
