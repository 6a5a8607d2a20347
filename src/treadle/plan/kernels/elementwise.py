"""elementwise and elementwise_flat: an Expr applied to every element of operands that broadcast."""

from __future__ import annotations

from typing import ClassVar

from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatElementwiseSpec(KernelSpec):
    """Parameters for operands of the result's shape or of one element. Pointers: results, then operands, of `expr`."""

    family: ClassVar[str] = "elementwise_flat"

    expr: Expr
    """Its `given` steps take their numbers from the arguments."""
    lanes: int
    """Elements that are computed together."""
    unroll: int
    """Vectors in one turn of the loop."""
    steady: tuple[bool, ...]
    """Which operands have one value in each row."""

    @property
    def given(self) -> int:
        """How many numbers the program takes from the arguments."""
        return sum(step.op == "given" for step in self.expr.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseSpec(FlatElementwiseSpec):
    """Parameters for operands that repeat along some axes."""

    family: ClassVar[str] = "elementwise"

    rank: int
    """Number of outer dimensions: all but rows and the elements of a row."""

    @property
    def accesses(self) -> int:
        """How many arrays have strides of their own: the results, which share theirs, and each operand."""
        return 1 + len(self.expr.operands)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatElementwiseArgs(KernelArgs[T]):
    """Arguments, in elements."""

    elements: T
    elements_per_chunk: T
    given: tuple[T, ...]
    """Bits of the numbers of `given` steps."""

    @classmethod
    def tuple_lengths(cls, spec: FlatElementwiseSpec) -> Lengths:
        return {"given": spec.given}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseArgs(KernelArgs[T]):
    """Arguments. A unit is some rows of one outer position, or a piece of one row."""

    units: T
    units_per_chunk: T
    row: T
    """Elements of a row."""
    piece: T
    """Elements of a piece of a row."""
    pieces: T
    """Pieces of a row."""
    rows: T
    """Rows of one outer position."""
    rows_per_unit: T
    row_blocks: T
    """Units of rows in one outer position."""
    sizes: tuple[T, ...]
    """Of the outer dimensions."""
    strides: tuple[tuple[T, ...], ...]
    """Of the results, then of each operand: of the outer dimensions and of rows, in elements."""
    given: tuple[T, ...]
    """Bits of the numbers of `given` steps."""

    @classmethod
    def tuple_lengths(cls, spec: ElementwiseSpec) -> Lengths:
        return {"sizes": spec.rank, "strides": (spec.accesses, spec.rank + 1), "given": spec.given}
