"""top_k: the first elements of each row in order of size, and where they are."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKSpec(KernelSpec):
    """Parameters. Pointers: values and positions (i64) of shape (units / inner, count, inner), x of shape
    (units / inner, size, inner)."""

    family: ClassVar[str] = "top_k"

    dtype: DType
    largest: bool
    """The largest elements come first, NaN before them; else the smallest, and NaN last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKArgs(KernelArgs[T]):
    """Arguments, in elements."""

    units: T
    """Rows along the axis."""
    units_per_chunk: T
    count: T
    """Elements to find in each row, at most `size`."""
    size: T
    """Length of the axis."""
    inner: T
    """Product of the dimensions behind the axis, at least 1."""
