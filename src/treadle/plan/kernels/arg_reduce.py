"""arg_reduce: the position of the largest or smallest element along one axis."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgReduceSpec(KernelSpec):
    """Parameters. Pointers: y (i64) of shape (units, inner), x of shape (units, size, inner)."""

    family: ClassVar[str] = "arg_reduce"

    dtype: DType
    largest: bool
    """The largest element wins, else the smallest."""
    last: bool
    """Of equal elements the last one wins, else the first."""
    single: bool
    """`inner` is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgReduceArgs(KernelArgs[T]):
    """Arguments, in elements."""

    units: T
    """Product of the dimensions before the axis."""
    units_per_chunk: T
    size: T
    """Length of the axis."""
    inner: T
    """Product of the dimensions behind the axis."""
