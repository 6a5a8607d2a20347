"""non_max_suppression: the boxes of each class, then those of all classes as rows."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

CORNERS = ("low y", "low x", "high y", "high x", "area")
"""What the scratch holds of each box that is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressBoxesSpec(KernelSpec):
    """Parameters. Pointers: kept (i64 [units, room]), how many are kept (i64 [units]), boxes, scores, most, overlap,
    least score.

    The scratch holds `boxes` i64, then for each of CORNERS `room` f32 and a vector.
    """

    family: ClassVar[str] = "suppress_boxes"

    center: bool
    """A box is its centre, width and height; else two corners, each y first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressBoxesArgs(KernelArgs[T]):
    """Arguments. A unit is one class of one image."""

    units: T
    units_per_chunk: T
    classes: T
    boxes: T
    """Boxes of an image."""
    room: T
    """How many may be kept of a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBoxesSpec(KernelSpec):
    """Parameters. Pointers: rows (i64 [n, 3]: image, class, box), n (i64), and the first two of `SuppressBoxesSpec`."""

    family: ClassVar[str] = "list_boxes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBoxesArgs(KernelArgs[T]):
    """Arguments, as in `SuppressBoxesArgs`."""

    units: T
    classes: T
    room: T
