"""scatter_elements and scatter_nd: updates written, or combined, into a copy of x."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterSpec(KernelSpec):
    """Parameters of both kernels. Pointers: y, y again, indices, updates. There is one chunk."""

    dtype: DType
    wide: bool
    """Indices are i64, else i32."""
    reduction: str
    """`none`, `add`, `mul`, `max` or `min`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterElementsSpec(ScatterSpec):
    """Parameters."""

    family: ClassVar[str] = "scatter_elements"

    rank: int
    """Dimensions of y and of indices, at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterNdSpec(ScatterSpec):
    """Parameters."""

    family: ClassVar[str] = "scatter_nd"

    depth: int
    """Axes that one row of indices addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterElementsArgs(KernelArgs[T]):
    """Arguments, in elements."""

    rows: T
    """Rows of indices along their last axis."""
    size: T
    """Length of the axis in y."""
    stride: T
    """Stride of the axis in y."""
    shape: tuple[T, ...]
    """Of indices."""
    strides: tuple[T, ...]
    """Of y; 0 for the axis."""

    @classmethod
    def tuple_lengths(cls, spec: ScatterElementsSpec) -> Lengths:
        return {"shape": spec.rank, "strides": spec.rank}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterNdArgs(KernelArgs[T]):
    """Arguments, in elements."""

    rows: T
    """Rows of updates."""
    length: T
    """Length of a row."""
    sizes: tuple[T, ...]
    """Lengths of the addressed axes."""
    strides: tuple[T, ...]
    """Strides of the addressed axes."""

    @classmethod
    def tuple_lengths(cls, spec: ScatterNdSpec) -> Lengths:
        return {"sizes": spec.depth, "strides": spec.depth}
