"""Reductions: of rows (the reduced elements are contiguous) and of columns (vectors run across them)."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.columns import ColumnTile, column_tiles
from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import lane_mask, load, store, store_masked
from treadle.codegen.emit.types import I64, lanes_of
from treadle.codegen.emit.vectors import lane_numbers, splat, undefined
from treadle.codegen.kernels.expr import emit_expr
from treadle.codegen.kernels.fold import Fold, fold_columns, fold_row, reader
from treadle.dtypes import DType, i64
from treadle.plan.kernels.reduce import (
    FoldSpec,
    ReduceColumnsArgs,
    ReduceColumnsSpec,
    ReduceRowsArgs,
    ReduceRowsSpec,
    ReduceSpec,
)

_TILE = 8
"""Vectors side by side in one pass down a column."""


class Source:
    """The elements to reduce: those of x from `offset` on, or the results of `head` for the operands there, converted
    to `folded`. Operands that are `steady` have one element."""

    def __init__(self, k: Kernel, spec: ReduceSpec, offset: Index) -> None:
        self.k, self.spec, self.head = k, spec, spec.head
        dtype, lanes = spec.source, spec.lanes
        pointers = [k.pointer(1 + number) for number in range(len(spec.steady))]
        self.steady = {
            number: splat(k, load(k, pointers[number], 0, dtype), lanes)
            for number, is_steady in enumerate(spec.steady)
            if is_steady
        }
        self.reads = {
            number: reader(k, k.at(pointer, offset, dtype), dtype, lanes, dtype)
            for number, pointer in enumerate(pointers)
            if number not in self.steady
        }

    def read(self, index: Index, mask: ir.Value | None) -> ir.Value:
        """The vector at `index`; lanes outside `mask` are not read."""
        k, spec = self.k, self.spec
        values = [
            self.steady[number] if number in self.steady else self.reads[number](index, mask)
            for number in range(len(spec.steady))
        ]
        value = values[0] if self.head is None else emit_expr(k, self.head, values, mask, spec.lanes)[0]
        return convert(k, value, spec.source, spec.folded)


def emit_reduce_rows(k: Kernel, spec: ReduceRowsSpec) -> None:
    """One result for each piece of each row."""
    args = k.args(ReduceRowsArgs[ir.Value], spec)
    fold = Fold(spec.how, spec.folded)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    if spec.short:
        _fold_short_rows(k, spec, args, fold, begin, end)
        return
    with loop(k, begin, end, name="row") as row:
        source = Source(k, spec, k.mul(k.div(row.index, args.pieces), args.n))
        start = k.mul(k.rem(row.index, args.pieces), args.piece)
        stop = k.min(k.add(start, args.piece), args.n)
        total, dtype = fold_row(k, fold, source.read, start, stop, spec.lanes, long=spec.long)
        store_result(k, spec, args.count, total, dtype, row.index, None)


def _fold_short_rows(
    k: Kernel, spec: ReduceRowsSpec, args: ReduceRowsArgs[ir.Value], fold: Fold, begin: Index, end: Index
) -> None:
    """One result for each of the rows [begin, end), several in a vector.

    The last vector ends with them, and computes some again, to the same bits.
    """
    lanes, source = spec.lanes, Source(k, spec, 0)
    count = k.sub(end, begin)
    are_enough = k.b.icmp_signed(">=", as_i64(count), I64(lanes))

    def block(row: Index, rows: Index | None) -> None:
        first = k.mul(row, spec.short)
        masks = [
            None if rows is None else lane_mask(k, k.sub(k.mul(rows, spec.short), number * lanes), lanes)
            for number in range(spec.short)
        ]
        vectors = [source.read(k.add(first, number * lanes), mask) for number, mask in enumerate(masks)]
        total, *others = (_column(k, vectors, place, lanes) for place in range(spec.short))
        for value in others:
            total = fold.join(k, total, value)
        mask = None if rows is None else lane_mask(k, rows, lanes)
        store_result(k, spec, args.count, total, fold.dtype, row, mask)

    with either(k, are_enough) as (then, otherwise):
        with then, loop(k, 0, count, lanes, name="rows") as turn:
            block(k.min(k.add(begin, turn.index), k.sub(end, lanes)), None)
        with otherwise:
            block(begin, count)


def _column(k: Kernel, vectors: list[ir.Value], place: int, lanes: int) -> ir.Value:
    """The element at `place` of each of `lanes` rows that follow each other in `vectors`, as many as a row is long."""
    column = undefined(vectors[0].type)
    for number, vector in enumerate(vectors):
        order = list(range(lanes))
        for row in range(lanes):
            source, lane = divmod(row * len(vectors) + place, lanes)
            if source == number:
                order[row] = lanes + lane
        column = k.b.shuffle_vector(column, vector, lane_numbers(tuple(order)))
    return column


def emit_reduce_columns(k: Kernel, spec: ReduceColumnsSpec) -> None:
    """x [outer, n, width] folded along n, in pieces of n."""
    args = k.args(ReduceColumnsArgs[ir.Value], spec)
    n, piece, pieces, width = args.n, args.piece, args.pieces, args.width
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="unit") as unit:
        block, rest = k.rem(unit.index, args.column_blocks), k.div(unit.index, args.column_blocks)
        part, outer = k.rem(rest, pieces), k.div(rest, pieces)
        within = k.mul(k.rem(outer, args.turn), width)
        offset = k.mul(k.add(k.mul(k.div(outer, args.turn), args.step), within), pieces)
        offset = k.add(offset, k.mul(part, width))
        first = k.mul(part, piece)
        last = k.min(k.add(first, piece), n)
        left = k.mul(block, args.columns)
        right = k.min(k.min(k.add(left, args.columns), width), k.sub(args.room, within))
        source = Source(k, spec, k.mul(outer, k.mul(n, width)))
        for tile in column_tiles(k, left, right, spec.lanes, _TILE):
            _fold_tile(k, spec, args, source, (first, last), offset, tile)


def _fold_tile(
    k: Kernel,
    spec: ReduceColumnsSpec,
    args: ReduceColumnsArgs[ir.Value],
    source: Source,
    rows: tuple[Index, Index],
    offset: Index,
    tile: ColumnTile,
) -> None:
    """Fold a tile of columns over `rows`, and store the results from `offset` on."""
    lanes = spec.lanes

    def read(row: Index) -> list[ir.Value]:
        start = k.add(k.mul(row, args.width), tile.column)
        return [source.read(k.add(start, number * lanes), tile.mask) for number in range(tile.vectors)]

    fold = Fold(spec.how, spec.folded)
    totals, dtype = fold_columns(
        k, fold, lambda first, last: [(first, last, read)], rows, lanes, tile.vectors, long=spec.long
    )
    for number, total in enumerate(totals):
        index = k.add(offset, k.add(tile.column, number * lanes))
        store_result(k, spec, args.count, total, dtype, index, tile.mask)


def store_result(
    k: Kernel, spec: FoldSpec, count: ir.Value, total: ir.Value, dtype: DType, index: Index, mask: ir.Value | None
) -> None:
    """result[index] = total, for means divided by `count` (integers toward zero)."""
    result = spec.result
    lanes = lanes_of(total.type)
    if spec.mean:
        divisor = splat(k, convert(k, k.b.add(count, I64(0)), i64, dtype), lanes)
        total = k.b.fdiv(total, divisor)
    value = convert(k, total, dtype, result)
    if mask is None:
        store(k, value, k.pointer(0), index, result)
    else:
        store_masked(k, value, k.pointer(0), index, result, mask)
