"""roi_align: regions of images, pooled from samples between their pixels."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

MOST_SAMPLES = 4096
"""The most samples along one axis of a bin: a region that needs more is far larger than any image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoiAlignSpec(KernelSpec):
    """Parameters. Pointers: y [regions, rows, columns, channels], x [images, height, width, channels], regions
    [regions, 4], images i32 or i64 [regions]."""

    family: ClassVar[str] = "roi_align"

    dtype: DType
    wide: bool
    """Numbers of images are i64, else i32."""
    largest: bool
    """The largest weighted pixel is taken, not the average."""
    half_pixel: bool
    """Pixels are at their centres, and regions may be smaller than one."""
    samples: int
    """Samples along each axis of a bin; 0: as many as a bin has pixels."""
    scale: float
    """From the coordinates of regions to those of pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoiAlignArgs(KernelArgs[T]):
    """Arguments. A unit is a row of bins of one region."""

    units: T
    units_per_chunk: T
    images: T
    height: T
    width: T
    channels: T
    rows: T
    """Rows of bins of a region."""
    columns: T
