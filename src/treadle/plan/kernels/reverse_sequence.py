"""reverse_sequence: rows of sequences copied in another order."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseSequenceSpec(KernelSpec):
    """Parameters. Pointers: y, x, both of shape (outer, inner, length), and lengths, one a sequence."""

    family: ClassVar[str] = "reverse_sequence"

    size: int
    """Bytes of an element."""
    wide: bool
    """Lengths are i64, else i32."""
    time_first: bool
    """The outer axis is time and the inner one the batch, else the reverse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseSequenceArgs(KernelArgs[T]):
    """Arguments. A unit is a row of `length` elements."""

    units: T
    units_per_chunk: T
    outer: T
    """Rows along the first axis."""
    inner: T
    """Rows along the second axis."""
    length: T
    """Elements of a row."""
