"""reduce_rows and reduce_columns: sums, products and extremes along one axis."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

FOLDED_VECTORS = 128
"""Vectors of a row that are folded in f32 before the total moves to f64: rows of more are `long`."""

FOLDED_ROWS = 32
"""Rows of a column that are folded in f32 before the totals move to f64: columns of more are `long`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSpec(KernelSpec):
    """Parameters of every kernel that folds elements into one."""

    how: str
    """`sum`, `prod`, `max` or `min`."""
    source: DType
    """Of what is read."""
    folded: DType
    """Dtype in which elements are folded."""
    result: DType
    """Of what is stored."""
    lanes: int
    long: bool
    """Sums and products of f32 move to f64, block by block."""
    mean: bool
    """Results are divided by the argument `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceSpec(FoldSpec):
    """Parameters of both kernels. Pointers: results, then x or the operands of `head`."""

    head: Expr | None
    """Makes the elements to fold of the operands; None: x is folded."""
    steady: tuple[bool, ...]
    """Which operands have one element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRowsSpec(ReduceSpec):
    """Parameters for x of shape (outer, n); results (outer, pieces)."""

    family: ClassVar[str] = "reduce_rows"

    short: int
    """n, where rows are so short that a vector holds an element of each of several rows; else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceColumnsSpec(ReduceSpec):
    """Parameters for x of shape (outer, n, width), folded along n."""

    family: ClassVar[str] = "reduce_columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldArgs(KernelArgs[T]):
    """Arguments of every kernel that folds elements into one."""

    units: T
    units_per_chunk: T
    n: T
    """Length of the axis."""
    piece: T
    """Length of a piece of the axis."""
    pieces: T
    """Pieces of the axis."""
    count: T
    """Elements of which a mean is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRowsArgs(FoldArgs[T]):
    """Arguments, in elements. A unit is a piece of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceColumnsArgs(FoldArgs[T]):
    """Arguments, in elements. A unit is some columns of a piece of one outer position.

    The result of outer position o, piece p and column c is at
    (o // turn * step + o % turn * width) * pieces + p * width + c.
    """

    width: T
    """Columns of one outer position."""
    columns: T
    """Columns of a unit."""
    column_blocks: T
    """Units of one piece."""
    turn: T
    """Outer positions whose results follow each other, `width` columns each."""
    step: T
    """Columns of the results of a turn."""
    room: T
    """Columns of a turn that are stored; the others are only padding."""
