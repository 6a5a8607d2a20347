"""cumsum: running sums along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T


@dataclass(frozen=True, slots=True, kw_only=True)
class CumsumSpec(KernelSpec):
    """Parameters. Pointers: y, x, both of shape (units, size, inner)."""

    family: ClassVar[str] = "cumsum"

    dtype: DType
    exclusive: bool
    """A sum leaves out the element at its own position."""
    reverse: bool
    """Sums begin at the end of the axis."""
    single: bool
    """`inner` is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CumsumArgs(KernelArgs[T]):
    """Arguments, in elements."""

    units: T
    """Product of the dimensions before the axis."""
    units_per_chunk: T
    size: T
    """Length of the axis."""
    inner: T
    """Product of the dimensions behind the axis."""
