"""softmax and log_softmax of f32 or f64, along rows or across them."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.columns import ColumnTile, column_tiles
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.math_exp import exp_below_one
from treadle.codegen.emit.math_log import log
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.vectors import constant, like, splat
from treadle.codegen.kernels.fold import Fold, each_vector, fold_vectors, reader
from treadle.dtypes import DType, f32, f64
from treadle.plan.kernels.softmax import (
    SoftmaxColumnsArgs,
    SoftmaxColumnsSpec,
    SoftmaxRowsArgs,
    SoftmaxRowsSpec,
    SoftmaxSpec,
)

_LOWEST = {f32: -(2.0 - 2.0**-23) * 2.0**127, f64: -(2.0 - 2.0**-52) * 2.0**1023}
"""The lowest finite numbers."""

_TILE = 4
"""Vectors side by side in one pass down the columns."""


def finite(k: Kernel, top: ir.Value, dtype: DType) -> ir.Value:
    """`top`, the greatest of some numbers, or the lowest finite number where all are -inf, so that exp(-inf - top) is
    0."""
    lowest = like(top, _LOWEST[dtype])
    return k.b.select(k.b.fcmp_ordered(">", top, lowest), top, lowest)


def divisor(k: Kernel, total: ir.Value) -> ir.Value:
    """`total`, a sum of powers, or 1 where all powers are 0."""
    return k.b.select(k.b.fcmp_ordered("==", total, like(total, 0.0)), like(total, 1.0), total)


def emit_softmax_rows(k: Kernel, spec: SoftmaxRowsSpec) -> None:
    """Rows of n contiguous elements, one after another."""
    args = k.args(SoftmaxRowsArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.rows, args.rows_per_chunk)
    n, dtype = args.n, spec.dtype
    emit = _emit_short_row if spec.short else _emit_row
    with loop(k, begin, end, name="row") as row:
        start = k.mul(row.index, n)
        emit(k, spec, k.at(k.pointer(0), start, dtype), k.at(k.pointer(1), start, dtype), n)


def _emit_short_row(k: Kernel, spec: SoftmaxSpec, y: ir.Value, x: ir.Value, n: ir.Value) -> None:
    dtype, lanes = spec.dtype, spec.lanes
    peak, total = Fold("peak", dtype), Fold("sum", dtype)
    mask = lane_mask(k, n, lanes)
    values = load_masked(k, x, 0, dtype, mask, peak.neutral(lanes))
    top = peak.across(k, values)
    shifted = k.b.fsub(values, splat(k, finite(k, top, dtype) if spec.safe else top, lanes))
    powers = k.b.select(mask, exp_below_one(k, shifted), total.neutral(lanes))
    sum_ = total.across(k, powers)
    result = _finish(k, spec, shifted, powers, splat(k, divisor(k, sum_) if spec.safe else sum_, lanes))
    store_masked(k, result, y, 0, dtype, mask)


def _finish(k: Kernel, spec: SoftmaxSpec, shifted: ir.Value, powers: ir.Value, total: ir.Value) -> ir.Value:
    return k.b.fsub(shifted, log(k, total)) if spec.log else k.b.fdiv(powers, total)


def _emit_row(k: Kernel, spec: SoftmaxSpec, y: ir.Value, x: ir.Value, n: ir.Value) -> None:
    dtype, lanes = spec.dtype, spec.lanes
    peak, total = Fold("peak", dtype), Fold("sum", dtype)
    read = reader(k, x, dtype, lanes, dtype)
    greatest = peak.across(k, fold_vectors(k, peak, read, 0, n, lanes))
    top = splat(k, finite(k, greatest, dtype) if spec.safe else greatest, lanes)

    def power(index: Index, mask: ir.Value | None) -> ir.Value:
        result = exp_below_one(k, k.b.fsub(read(index, mask), top))
        if not spec.log:
            _put(k, result, y, index, dtype, mask)
        return result

    powers = total.across(k, fold_vectors(k, total, power, 0, n, lanes))
    if spec.log:
        shift = splat(k, log(k, powers), lanes)
        each_vector(
            k,
            lambda index, mask: _put(k, k.b.fsub(k.b.fsub(read(index, mask), top), shift), y, index, dtype, mask),
            0,
            n,
            lanes,
            4,
        )
        return
    factor = splat(k, k.b.fdiv(like(powers, 1.0), divisor(k, powers) if spec.safe else powers), lanes)
    again = reader(k, y, dtype, lanes, dtype)
    each_vector(
        k, lambda index, mask: _put(k, k.b.fmul(again(index, mask), factor), y, index, dtype, mask), 0, n, lanes, 4
    )


def _put(k: Kernel, value: ir.Value, base: ir.Value, index: Index, dtype: DType, mask: ir.Value | None) -> None:
    if mask is None:
        store(k, value, base, index, dtype)
    else:
        store_masked(k, value, base, index, dtype, mask)


def emit_softmax_columns(k: Kernel, spec: SoftmaxColumnsSpec) -> None:
    """x [outer, n, width], softmax along n: a tile of columns at a time."""
    args = k.args(SoftmaxColumnsArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    n, width, columns, blocks = args.n, args.width, args.columns, args.column_blocks
    dtype, lanes = spec.dtype, spec.lanes
    with loop(k, begin, end, name="unit") as unit:
        base = k.mul(k.div(unit.index, blocks), k.mul(n, width))
        left = k.mul(k.rem(unit.index, blocks), columns)
        right = k.min(k.add(left, columns), width)
        y, x = (k.at(k.pointer(number), base, dtype) for number in range(2))
        for tile in column_tiles(k, left, right, lanes, _TILE):
            _emit_tile(k, spec, y, x, (n, width), tile)


def _emit_tile(
    k: Kernel, spec: SoftmaxSpec, y: ir.Value, x: ir.Value, sizes: tuple[ir.Value, ir.Value], tile: ColumnTile
) -> None:
    """The columns of a tile, of a matrix of `sizes` (n, width)."""
    dtype, lanes = spec.dtype, spec.lanes
    n, width = sizes
    peak = Fold("peak", dtype)
    parts = range(tile.vectors)

    def at(row: Index, part: int) -> Index:
        return k.add(k.mul(row, width), k.add(tile.column, part * lanes))

    def read(base: ir.Value, row: Index, part: int) -> ir.Value:
        if tile.mask is None:
            return load(k, base, at(row, part), dtype, lanes)
        return load_masked(k, base, at(row, part), dtype, tile.mask, constant(dtype, 0.0, lanes))

    with loop(k, 0, n, carry=[peak.neutral(lanes)] * tile.vectors, name="peak") as find:
        find.next(*(peak.join(k, find.carry[part], read(x, find.index, part)) for part in parts))
    top = [finite(k, each, dtype) for each in find.carry] if spec.safe else find.carry
    with loop(k, 0, n, carry=[constant(dtype, 0.0, lanes)] * tile.vectors, name="sum") as add:
        powers = [exp_below_one(k, k.b.fsub(read(x, add.index, part), top[part])) for part in parts]
        for part, power in enumerate(powers):
            if not spec.log:
                _put(k, power, y, at(add.index, part), dtype, tile.mask)
        add.next(*(k.b.fadd(total, power) for total, power in zip(add.carry, powers, strict=True)))
    totals = [divisor(k, total) for total in add.carry] if spec.safe else add.carry
    shifts = [log(k, total) if spec.log else k.b.fdiv(like(total, 1.0), total) for total in totals]
    with loop(k, 0, n, name="scale") as scale:
        for part, shift in enumerate(shifts):
            if spec.log:
                result = k.b.fsub(k.b.fsub(read(x, scale.index, part), top[part]), shift)
            else:
                result = k.b.fmul(read(y, scale.index, part), shift)
            _put(k, result, y, at(scale.index, part), dtype, tile.mask)
