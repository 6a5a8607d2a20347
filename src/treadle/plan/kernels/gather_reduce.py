"""gather_reduce: bags of rows, picked by indices, each folded into one row."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import T
from treadle.plan.kernels.reduce import FoldArgs, FoldSpec
from treadle.records import dataclass


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
class GatherReduceArgs(FoldArgs[T]):
    """Arguments. A unit is a row of y. Indices have shape (outer, n, inner); the folded axis is that of a bag."""

    inner: T
    length: T
    """Elements of a row, at least one vector."""
    size: T
    """Rows of x."""
    total: T
    """outer * n."""
    distance: T
    """How many rows later the prefetched row is folded."""
