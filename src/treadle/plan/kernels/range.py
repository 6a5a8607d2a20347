"""range: an arithmetic sequence."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSpec(KernelSpec):
    """Parameters. Pointer: y."""

    family: ClassVar[str] = "range"

    dtype: DType
    """i16, i32, i64, f32 or f64."""
    whole: bool
    """Start and delta are given as integers, else as the bits of two f64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeArgs(KernelArgs[T]):
    """Arguments. A unit is an element of y."""

    units: T
    units_per_chunk: T
    start: T
    """The first element."""
    delta: T
    """What each element adds to the one before."""
