"""places: the table of one axis of a lookup, for sizes that are known at binding."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesSpec(KernelSpec):
    """Parameters. Pointer: the tables of all axes (i64), as `lookup` reads them."""

    family: ClassVar[str] = "places"

    how: str
    """A mode of ops.pad.MODES, or "nearest": the nearest neighbour in a resize."""
    coordinate_mode: str = ""
    """Of a resize: one of ops.interpolation.COORDINATE_MODES, but tf_crop_and_resize."""
    nearest_mode: str = ""
    """Of a resize: one of ops.interpolation.NEAREST_MODES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesArgs(KernelArgs[T]):
    """Arguments. A unit is a position along the axis of y."""

    units: T
    units_per_chunk: T
    first: T
    """The entry of position 0."""
    size: T
    """Positions along the axis of x that are looked up."""
    skipped: T
    """Positions of x before them."""
    begin: T
    """The position along y of the first of them; below 0 where pads take elements away. 0 in a resize."""
    stride: T
    """Elements from one position of x to the next."""
    scale: T
    """The bits of the f64 by which a resize scales the axis."""
