"""cumulative: sums, products and extremes of all elements so far along one axis."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeSpec(KernelSpec):
    """Parameters. Pointers: y, x, both of shape (units, size, inner)."""

    family: ClassVar[str] = "cumulative"

    op: str
    """cumsum, cumprod, cummax, cummin or logcumsumexp."""
    dtype: DType
    exclusive: bool
    """A result leaves out the element at its own position."""
    reverse: bool
    """Results begin at the end of the axis."""
    single: bool
    """`inner` is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeArgs(KernelArgs[T]):
    """Arguments, in elements."""

    units: T
    """Product of the dimensions before the axis."""
    units_per_chunk: T
    size: T
    """Length of the axis."""
    inner: T
    """Product of the dimensions behind the axis."""
