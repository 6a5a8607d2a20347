"""resample: one axis of a linear or cubic resize."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ResampleSpec(KernelSpec):
    """Parameters. Pointers: y, x, indices (i64) and weights of the taps of each position along y's axis."""

    family: ClassVar[str] = "resample"

    dtype: DType
    single: bool
    """`length` is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResampleArgs(KernelArgs[T]):
    """Arguments."""

    units: T
    """Product of the dimensions of y up to and including the axis."""
    units_per_chunk: T
    out_size: T
    """Positions along the axis of y."""
    size: T
    """Positions along the axis of x."""
    taps: T
    """Positions of x that one of y is a weighted sum of."""
    length: T
    """Elements: product of the dimensions behind the axis."""
