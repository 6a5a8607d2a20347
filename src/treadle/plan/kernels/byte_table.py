"""byte_table: a function of one byte, read from a table of its 256 values."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteTableSpec(KernelSpec):
    """There are no parameters. Pointers: out, x, table (256 bytes)."""

    family: ClassVar[str] = "byte_table"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteTableArgs(KernelArgs[T]):
    """Arguments."""

    elements: T
    """Bytes of x."""
    elements_per_chunk: T
