"""interpolation: the tables of one axis of a linear or cubic resize, for sizes that are known at binding."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpolationSpec(KernelSpec):
    """Parameters. Pointers: indices (i64) and weights, both of shape [out, taps]."""

    family: ClassVar[str] = "interpolation"

    dtype: DType
    """Of the weights, which are computed in f64."""
    cubic: bool
    """Four taps, else two, where the axis does not shrink."""
    coordinate_mode: str
    """One of ops.interpolation.COORDINATE_MODES, but tf_crop_and_resize."""
    exclude_outside: bool
    """Elements beyond the ends take no part, else the last ones are repeated."""
    antialias: bool
    """Where the axis shrinks, the curve is as much wider: the number of taps is an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpolationArgs(KernelArgs[T]):
    """Arguments. A unit is a position along the axis of the result."""

    units: T
    units_per_chunk: T
    size: T
    """Positions along the axis of x, at least 1."""
    scale: T
    """The bits of the f64 by which the axis is scaled."""
    taps: T
    """Taps of a position: as many as the curve needs, an even number; or 1, which copies the axis."""
    coefficient: T
    """The bits of the f64 that shapes the cubic curve."""
