"""one_hot: one element of each row set to "on", the others to "off"."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHotSpec(KernelSpec):
    """Parameters. Pointers: y of shape (units, depth, inner), indices (units, inner), values (off, on)."""

    family: ClassVar[str] = "one_hot"

    size: int
    """Bytes of an element of values."""
    wide: bool
    """Indices are i64, else i32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHotArgs(KernelArgs[T]):
    """Arguments, in elements."""

    units: T
    units_per_chunk: T
    depth: T
    """Length of the new axis."""
    inner: T
    """Product of the dimensions behind the new axis."""
