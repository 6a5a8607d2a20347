"""norm_rows: rows normalised by their own mean and variance, or root mean square."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NormRowsSpec(KernelSpec):
    """Parameters. Pointers: y, x, scale (unless `none`), bias (unless `none`)."""

    family: ClassVar[str] = "norm_rows"

    dtype: DType
    lanes: int
    centred: bool
    """The mean is subtracted."""
    scale: str
    """`none`; `one` number; `element`: a number for each element of a row; `segment`: one for each segment."""
    bias: str
    """As `scale`."""
    long: bool
    """Sums move to f64 block by block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormRowsArgs(KernelArgs[T]):
    """Arguments."""

    rows: T
    rows_per_chunk: T
    n: T
    """Elements of a row."""
    length: T
    """Elements of a segment."""
    segments: T
    """Segments of a row."""
    turn: T
    """Rows after which the parameters of segments repeat."""
    epsilon: T
    """Bits of an f64."""
