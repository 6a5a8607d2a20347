"""Reductions: of rows (the reduced elements lie side by side) and of columns (vectors run across them)."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.columns import ColumnTile, column_tiles
from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store, store_masked
from treadle.codegen.emit.types import I64, lanes_of
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.expr import emit_expr
from treadle.codegen.kernels.fold import Fold, fold_columns, fold_row, reader
from treadle.dtypes import DType, i64
from treadle.plan.kernel_spec import KernelSpec

_TILE = 8
"""Vectors side by side in one pass down a column."""


class Source:
    """What is reduced: x from `offset` on, read as `folded`, or the result of `head` for the operands there; those that
    are `steady` have one element."""

    def __init__(self, k: Kernel, spec: KernelSpec, offset: Index) -> None:
        self.k, self.spec, self.head = k, spec, spec["head"]
        dtype, lanes = spec["source"], spec["lanes"]
        pointers = [k.pointer(1 + number) for number in range(len(spec["steady"]))]
        self.steady = {
            number: splat(k, load(k, pointers[number], 0, dtype), lanes)
            for number, is_steady in enumerate(spec["steady"])
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
            for number in range(len(spec["steady"]))
        ]
        value = values[0] if self.head is None else emit_expr(k, self.head, values, mask, spec["lanes"])[0]
        return convert(k, value, spec["source"], spec["folded"])


def emit_reduce_rows(k: Kernel, spec: KernelSpec) -> None:
    """One result for each piece of each row.

    Params: how, source, folded, result (DTypes), lanes, long, mean, head, steady (see Source). Pointers: results
    [rows, pieces], x [rows, n] or the operands of the head.
    Args: rows * pieces, of them per chunk, n, elements a piece, pieces, the count that a mean divides by.
    """
    fold = Fold(spec["how"], spec["folded"])
    begin, end = k.chunk_range(k.arg(0), k.arg(1))
    n, piece, pieces = k.arg(2), k.arg(3), k.arg(4)
    with loop(k, begin, end, name="row") as row:
        source = Source(k, spec, k.mul(k.div(row.index, pieces), n))
        start = k.mul(k.rem(row.index, pieces), piece)
        stop = k.min(k.add(start, piece), n)
        total, dtype = fold_row(k, fold, source.read, start, stop, spec["lanes"], long=spec["long"])
        store_result(k, spec, total, dtype, row.index, None)


def emit_reduce_columns(k: Kernel, spec: KernelSpec) -> None:
    """x [outer, n, width] folded over n, in pieces of n.

    Params: as of rows. Pointers: results, x or the operands of the head.
    Args: units, units per chunk, n, elements a piece, pieces, the count that a mean divides by, width, columns a
    unit, column blocks, then where results lie: of outer position o and piece p at
    (o // turn * step + o % turn * width) * pieces + p * width, `room` - o % turn * width of them at most:
    turn, step, room.
    """
    n, piece, pieces = k.arg(2), k.arg(3), k.arg(4)
    width, columns, blocks = k.arg(6), k.arg(7), k.arg(8)
    turn, step, room = k.arg(9), k.arg(10), k.arg(11)
    begin, end = k.chunk_range(k.arg(0), k.arg(1))
    with loop(k, begin, end, name="unit") as unit:
        block, rest = k.rem(unit.index, blocks), k.div(unit.index, blocks)
        part, outer = k.rem(rest, pieces), k.div(rest, pieces)
        within = k.mul(k.rem(outer, turn), width)
        place = k.mul(k.add(k.mul(k.div(outer, turn), step), within), pieces)
        place = k.add(place, k.mul(part, width))
        first = k.mul(part, piece)
        last = k.min(k.add(first, piece), n)
        left = k.mul(block, columns)
        right = k.min(k.min(k.add(left, columns), width), k.sub(room, within))
        source = Source(k, spec, k.mul(outer, k.mul(n, width)))
        for tile in column_tiles(k, left, right, spec["lanes"], _TILE):
            _fold_tile(k, spec, source, (first, last), place, tile)


def _fold_tile(
    k: Kernel, spec: KernelSpec, source: Source, rows: tuple[Index, Index], place: Index, tile: ColumnTile
) -> None:
    lanes, width = spec["lanes"], k.arg(6)

    def read(row: Index) -> list[ir.Value]:
        start = k.add(k.mul(row, width), tile.column)
        return [source.read(k.add(start, number * lanes), tile.mask) for number in range(tile.vectors)]

    fold = Fold(spec["how"], spec["folded"])
    totals, dtype = fold_columns(
        k, fold, lambda first, last: [(first, last, read)], rows, lanes, tile.vectors, long=spec["long"]
    )
    for number, total in enumerate(totals):
        index = k.add(place, k.add(tile.column, number * lanes))
        store_result(k, spec, total, dtype, index, tile.mask)


def store_result(
    k: Kernel, spec: KernelSpec, total: ir.Value, dtype: DType, index: Index, mask: ir.Value | None
) -> None:
    """result[index] = total, divided by the count, argument 5, for means (of integers toward zero)"""
    result: DType = spec["result"]
    lanes = lanes_of(total.type)
    if spec["mean"]:
        count = splat(k, convert(k, k.b.add(k.arg(5), I64(0)), i64, dtype), lanes)
        total = k.b.fdiv(total, count)
    value = convert(k, total, dtype, result)
    if mask is None:
        store(k, value, k.pointer(0), index, result)
    else:
        store_masked(k, value, k.pointer(0), index, result, mask)
