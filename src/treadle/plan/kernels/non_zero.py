"""non_zero: positions of elements that are not 0, in two kernels that share a partition of x into chunks."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CountNonZeroSpec(KernelSpec):
    """Parameters. Pointers: how many are found in each chunk (i64), x."""

    family: ClassVar[str] = "count_non_zero"

    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class CountNonZeroArgs(KernelArgs[T]):
    """Arguments, in elements."""

    size: T
    size_per_chunk: T


@dataclass(frozen=True, slots=True, kw_only=True)
class NonZeroSpec(KernelSpec):
    """Parameters. Pointers: found (i64: a row of as many as there are for each axis), their number (i64), x, and how
    many there are in each chunk."""

    family: ClassVar[str] = "non_zero"

    dtype: DType
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NonZeroArgs(KernelArgs[T]):
    """Arguments, in elements."""

    size: T
    size_per_chunk: T
    chunks: T
    shape: tuple[T, ...]
    """The shape of x, no dimension below 1."""

    @classmethod
    def tuple_lengths(cls, spec: NonZeroSpec) -> Lengths:
        """The shape has a number for each axis."""
        return {"shape": spec.rank}
