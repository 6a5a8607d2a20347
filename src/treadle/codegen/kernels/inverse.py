"""inverse: LU factors with partial pivoting, then forward and backward substitution, row by row of the result."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.columns import ColumnTile, column_tiles
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.rows import copy_row
from treadle.codegen.emit.types import I32
from treadle.codegen.emit.vectors import constant, lane_numbers, like, multiply_add, splat, unary_intrinsic
from treadle.codegen.kernels.expr import load_value, store_value
from treadle.dtypes import DType, i64
from treadle.plan.kernels.inverse import VECTORS, InverseArgs, InverseSpec
from treadle.plan.status import SINGULAR
from treadle.records import dataclass


def emit_inverse(k: Kernel, spec: InverseSpec) -> None:
    """y[b] = x[b]^-1. A unit is a matrix. The kernel fails where no row of a column can be its pivot."""
    args = k.args(InverseArgs[ir.Value], spec)
    lanes, size = k.target.lanes(spec.dtype), args.size
    area = k.mul(size, size)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="matrix") as unit:
        place = k.mul(unit.index, area)
        y, x = (k.at(k.pointer(number), place, spec.dtype) for number in range(2))
        factors = _Factors(k, spec.dtype, k.at(k.scratch, size, i64), k.scratch, size, lanes)
        copy_row(k, factors.base, x, area, spec.dtype)
        with loop(k, 0, size, name="order") as row:
            store(k, row.index, factors.order, row.index, i64)
        with loop(k, 0, size, name="pivot") as step:
            factors.eliminate(step.index)
        for tile in column_tiles(k, 0, size, lanes, VECTORS):
            factors.solve(y, tile)


@dataclass(frozen=True, slots=True)
class _Factors:
    """The factors of a matrix whose rows are in the `order` of the pivots.

    `base` has the upper triangle and, below its diagonal, the negated lower one, whose own diagonal is 1.
    """

    k: Kernel
    dtype: DType
    base: ir.Value
    order: ir.Value
    size: Index
    lanes: int

    def eliminate(self, step: Index) -> None:
        """Choose the pivot of column `step` and subtract multiples of its row from those below."""
        k, dtype = self.k, self.dtype
        self._swap(step, self._pivot(step))
        top = self._row(step)
        pivot = load(k, top, step, dtype)
        k.fail_if(k.b.fcmp_ordered("==", pivot, like(pivot, 0.0)), SINGULAR)
        after = k.add(step, 1)
        with loop(k, after, self.size, name="below") as row:
            at = self._row(row.index)
            factor = k.b.fneg(k.b.fdiv(load(k, at, step, dtype), pivot))
            store(k, factor, at, step, dtype)
            self._add_row(at, top, factor, after)

    def _pivot(self, step: Index) -> ir.Value:
        """The row from `step` on whose element in column `step` is the largest; the first of these."""
        k, dtype = self.k, self.dtype
        first = unary_intrinsic(k, "fabs", load(k, self._row(step), step, dtype))
        with loop(k, k.add(step, 1), self.size, carry=[first, as_i64(step)], name="candidate") as row:
            best, where = row.carry
            found = unary_intrinsic(k, "fabs", load(k, self._row(row.index), step, dtype))
            larger = k.b.fcmp_ordered(">", found, best)
            row.next(k.b.select(larger, found, best), k.b.select(larger, row.index, where))
        return row.carry[1]

    def _swap(self, one: Index, other: Index) -> None:
        """Exchange two rows, and their numbers in the order."""
        k, dtype = self.k, self.dtype
        with when(k, k.less(one, other)):
            for base, count, kind in ((self.base, self.size, dtype), (self.order, 1, i64)):
                left, right = (k.at(base, k.mul(row, count), kind) for row in (one, other))
                with loop(k, 0, count, name="swap") as column:
                    both = [load(k, row, column.index, kind) for row in (left, right)]
                    store(k, both[1], left, column.index, kind)
                    store(k, both[0], right, column.index, kind)

    def _add_row(self, target: ir.Value, source: ir.Value, factor: ir.Value, begin: Index) -> None:
        """target[begin:] += factor * source[begin:]."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        wide = splat(k, factor, lanes)
        whole = k.add(begin, k.mul(k.div(k.sub(self.size, begin), lanes), lanes))
        with loop(k, begin, whole, lanes, name="vector") as column:
            sums = load(k, target, column.index, dtype, lanes)
            product = multiply_add(k, wide, load(k, source, column.index, dtype, lanes), sums)
            store(k, product, target, column.index, dtype)
        with loop(k, whole, self.size, name="element") as column:
            sums = load(k, target, column.index, dtype)
            store(k, multiply_add(k, factor, load(k, source, column.index, dtype), sums), target, column.index, dtype)

    def solve(self, y: ir.Value, tile: ColumnTile) -> None:
        """Compute the columns `tile` of y."""
        k, size = self.k, self.size
        with loop(k, 0, size, name="forward") as row:
            unit = self._of_identity(row.index, tile)
            sums = self._combined(y, row.index, (0, row.index), tile, unit, negated=False)
            self._store(y, row.index, tile, sums)
        with loop(k, 0, size, name="backward") as turn:
            row_index = k.sub(k.sub(size, 1), turn.index)
            known = self._load(y, row_index, tile)
            sums = self._combined(y, row_index, (k.add(row_index, 1), size), tile, known, negated=True)
            pivot = splat(k, load(k, self._row(row_index), row_index, self.dtype), self.lanes)
            self._store(y, row_index, tile, [k.b.fdiv(each, pivot) for each in sums])

    def _combined(
        self,
        y: ir.Value,
        row: Index,
        rows: tuple[Index, Index],
        tile: ColumnTile,
        sums: Sequence[ir.Value],
        *,
        negated: bool,
    ) -> list[ir.Value]:
        """`sums` plus the given rows of y, each times its element in `row` of the factors, which may be negated."""
        k = self.k
        with loop(k, *rows, carry=sums, name="term") as term:
            factor = load(k, self._row(row), term.index, self.dtype)
            wide = splat(k, k.b.fneg(factor) if negated else factor, self.lanes)
            found = self._load(y, term.index, tile)
            term.next(*(multiply_add(k, wide, *pair) for pair in zip(found, term.carry, strict=True)))
        return term.carry

    def _of_identity(self, row: Index, tile: ColumnTile) -> list[ir.Value]:
        """The columns of the identity whose row is the one that came to `row`."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        source = k.sub(load(k, self.order, row, i64), tile.column)
        found = []
        for number in range(tile.vectors):
            place = k.max(k.min(k.sub(source, number * lanes), lanes), -1)
            own = k.b.icmp_signed(
                "==", lane_numbers(tuple(range(lanes))), splat(k, k.b.trunc(as_i64(place), I32), lanes)
            )
            found.append(k.b.select(own, constant(dtype, 1.0, lanes), constant(dtype, 0.0, lanes)))
        return found

    def _load(self, y: ir.Value, row: Index, tile: ColumnTile) -> list[ir.Value]:
        k, dtype, lanes = self.k, self.dtype, self.lanes
        return [load_value(k, y, place, dtype, lanes, tile.mask) for place in self._places(row, tile)]

    def _store(self, y: ir.Value, row: Index, tile: ColumnTile, values: Sequence[ir.Value]) -> None:
        for place, value in zip(self._places(row, tile), values, strict=True):
            store_value(self.k, value, y, place, self.dtype, tile.mask)

    def _places(self, row: Index, tile: ColumnTile) -> list[Index]:
        """Where the vectors of a row of y are."""
        first = self.k.add(self.k.mul(row, self.size), tile.column)
        return [self.k.add(first, number * self.lanes) for number in range(tile.vectors)]

    def _row(self, row: Index) -> ir.Value:
        return self.k.at(self.base, self.k.mul(row, self.size), self.dtype)
