"""copy_bytes: one buffer to another."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBytesSpec(KernelSpec):
    """There are no parameters. Pointers: target, source."""

    family: ClassVar[str] = "copy_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBytesArgs(KernelArgs[T]):
    """Arguments."""

    bytes: T
    bytes_per_chunk: T
