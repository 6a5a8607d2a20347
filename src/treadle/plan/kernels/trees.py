"""trees: rows of features through decision trees."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

TOGETHER = 8
"""Rows that go down a tree together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesSpec(KernelSpec):
    """Parameters. Pointers: y, x, nodes, thresholds, firsts, ids, weights, roots (see `ops.trees`)."""

    family: ClassVar[str] = "trees"

    dtype: DType
    """Of x."""
    sum: DType
    """Of y."""
    missing: bool
    """NaN follows the first child of some nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesArgs(KernelArgs[T]):
    """Arguments. A unit is a row."""

    units: T
    units_per_chunk: T
    features: T
    """Elements of a row of x."""
    targets: T
    """Elements of a row of y."""
    trees: T
