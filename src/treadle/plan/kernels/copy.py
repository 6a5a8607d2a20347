"""copy_rows, copy_tiles and copy_interleaved: strided copies."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec(KernelSpec):
    """Parameters of all kernels. Pointers: target, source."""

    size: int
    """Bytes of an element."""
    rank: int
    """Number of outer axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRowsSpec(CopySpec):
    """Parameters for copies whose inner axis is a row in the target. `rank` is at least 1."""

    family: ClassVar[str] = "copy_rows"

    step: int | None
    """Stride of the row in the source: 1, 0, 2 to 4, or -1; None: the argument says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTilesSpec(CopySpec):
    """Parameters for transposing copies: axis a is contiguous in the target, axis b in the source."""

    family: ClassVar[str] = "copy_tiles"

    side: int
    """Rows and columns of a tile."""
    group: int
    """Tiles of a unit, side by side along b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyInterleavedSpec(CopySpec):
    """Parameters for copies that take one element of each of a few rows in turn."""

    family: ClassVar[str] = "copy_interleaved"

    ways: int
    """The rows, a power of 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyArgs(KernelArgs[T]):
    """Arguments of all kernels, in elements: the outer axes."""

    units: T
    units_per_chunk: T
    target_start: T
    """Offset of the first element."""
    source_start: T
    """Offset of the first element."""
    sizes: tuple[T, ...]
    """Of the outer axes."""
    target_strides: tuple[T, ...]
    """Of the outer axes."""
    source_strides: tuple[T, ...]
    """Of the outer axes."""

    @classmethod
    def tuple_lengths(cls, spec: CopySpec) -> Lengths:
        return {"sizes": spec.rank, "target_strides": spec.rank, "source_strides": spec.rank}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRowsArgs(CopyArgs[T]):
    """Arguments, in elements. A unit is a row, or a part of a long row."""

    length: T
    """Length of a row."""
    most: T
    """The part of a row that a unit copies at most."""
    fall: T
    """Difference of the lengths of units that are neighbours on the last outer axis."""
    step: T
    """Stride of a row in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyInterleavedArgs(CopyArgs[T]):
    """Arguments, in elements. A unit is a piece of the rows."""

    length: T
    """Length of a row in the source."""
    piece: T
    """The part of the rows that a unit copies at most."""
    source_way: T
    """Stride from one row to the next in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTilesArgs(CopyArgs[T]):
    """Arguments, in elements. A unit is a group of tiles."""

    size_a: T
    """Length of axis a."""
    size_b: T
    """Length of axis b."""
    source_a: T
    """Stride of axis a in the source."""
    target_b: T
    """Stride of axis b in the target."""
