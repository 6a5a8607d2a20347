"""sizes: numbers that are known at binding, written to memory."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass

MOST_ELEMENTS = 64
"""The kernel has one store for each element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesSpec(KernelSpec):
    """Parameters. Pointer: y."""

    family: ClassVar[str] = "sizes"

    dtype: DType
    count: int
    """Elements of y, at most MOST_ELEMENTS."""
    whole: bool
    """They are given as integers, else as the bits of f64s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesArgs(KernelArgs[T]):
    """Arguments."""

    elements: tuple[T, ...]
    """The elements of y."""

    @classmethod
    def tuple_lengths(cls, spec: SizesSpec) -> Lengths:
        return {"elements": spec.count}
