"""gather_reduce: bags of rows, picked by indices, each folded into one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, T
from treadle.plan.kernels.reduce import FoldSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherReduceSpec(FoldSpec):
    """Parameters. Pointers: y, x, indices, weights (if `weighted`)."""

    family: ClassVar[str] = "gather_reduce"

    wide: bool
    """Indices are i64, else i32."""
    weighted: bool
    """Rows are multiplied by weights, one for each index."""
    flat: bool
    """`pieces` and `inner` are 1."""
    vectors: int
    """Vectors of a row that are folded together."""
    lines: int
    """Cache lines of a later row to prefetch; may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherReduceArgs(KernelArgs[T]):
    """Arguments. A unit is a row of y. Indices have shape (outer, n, inner)."""

    units: T
    units_per_chunk: T
    n: T
    """Rows of a bag."""
    piece: T
    """Rows of a piece of a bag."""
    pieces: T
    """Pieces of a bag."""
    count: T
    """Rows of which a mean is taken."""
    inner: T
    length: T
    """Elements of a row, at least one vector."""
    size: T
    """Rows of x."""
    total: T
    """outer * n."""
    distance: T
    """How many rows later the prefetched row is folded."""
