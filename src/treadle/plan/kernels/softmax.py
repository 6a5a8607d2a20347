"""softmax_rows and softmax_columns."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxSpec(KernelSpec):
    """Parameters of both kernels. Pointers: y, x."""

    dtype: DType
    lanes: int
    log: bool
    """log_softmax."""
    safe: bool
    """Where all elements are -inf, results are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxRowsSpec(SoftmaxSpec):
    """Parameters for rows whose elements are contiguous."""

    family: ClassVar[str] = "softmax_rows"

    short: bool
    """A row fits one vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxColumnsSpec(SoftmaxSpec):
    """Parameters for x of shape (outer, n, width), softmax along n."""

    family: ClassVar[str] = "softmax_columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxRowsArgs(KernelArgs[T]):
    """Arguments."""

    rows: T
    rows_per_chunk: T
    n: T
    """Elements of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxColumnsArgs(KernelArgs[T]):
    """Arguments. A unit is some columns of one outer position."""

    units: T
    units_per_chunk: T
    n: T
    """Length of the axis."""
    width: T
    """Columns of one outer position."""
    columns: T
    """Columns of a unit."""
    column_blocks: T
    """Units of one outer position."""
