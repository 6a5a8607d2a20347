"""Strided copies, which transpose, slice, split, concat, expand and tile become.

A copy is a nest of loops over axes with a stride in the target and one in the source; elements are moved
as integers of their size, whatever they mean. `passes.lower.copy` sorts the axes so that the innermost one is
contiguous in the target; its stride in the source decides which inner loop is emitted.
"""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.ranges import coordinates, offset_at, segments
from treadle.codegen.emit.rows import copy_row, fill_row, word
from treadle.codegen.emit.tiles import Rows, move_part
from treadle.codegen.emit.vectors import interleave, take
from treadle.dtypes import DType
from treadle.plan.kernels.copy import (
    CopyInterleavedArgs,
    CopyInterleavedSpec,
    CopyRowsArgs,
    CopyRowsSpec,
    CopyTilesArgs,
    CopyTilesSpec,
)


def emit_copy_rows(k: Kernel, spec: CopyRowsSpec) -> None:
    """target[offset + sum(i * t) + j] = source[offset' + sum(i * s) + j * step], for rows of j.

    A unit is a row. The length of rows falls by `fall` from one coordinate on the last outer axis to the next.
    """
    dtype, step = word(spec.size), spec.step
    args = k.args(CopyRowsArgs[ir.Value], spec)
    sizes, targets, sources = args.sizes, args.target_strides, args.source_strides
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with segments(k, begin, end, sizes[-1]) as (outer, first, last):
        at = coordinates(k, outer, sizes[:-1])
        target_base = offset_at(k, at, targets[:-1], args.target_start)
        source_base = offset_at(k, at, sources[:-1], args.source_start)
        with loop(k, first, last, name="row") as row:
            target = k.at(k.pointer(0), k.add(target_base, k.mul(row.index, targets[-1])), dtype)
            source = k.at(k.pointer(1), k.add(source_base, k.mul(row.index, sources[-1])), dtype)
            count = k.min(k.sub(args.length, k.mul(row.index, args.fall)), args.most)
            if step == 1:
                copy_row(k, target, source, count, dtype)
            elif step == 0:
                fill_row(k, target, load(k, source, 0, dtype), count, dtype)
            else:
                _pick_row(k, target, source, count, dtype, args.step if step is None else step)


def _pick_row(k: Kernel, target: ir.Value, source: ir.Value, count: Index, dtype: DType, step: Index) -> None:
    """target[j] = source[j * step] for j < count: out of whole vectors where `step` is known."""
    lanes = k.target.lanes(dtype)
    start: Index = 0
    if isinstance(step, int):
        # A vector reads up to the position of the element after its last one, which must exist.
        start = k.mul(k.div(k.max(k.sub(count, 1), 0), lanes), lanes)
        with loop(k, 0, start, lanes, name="vector") as turn:
            if step < 0:
                wide = load(k, source, k.sub(1 - lanes, turn.index), dtype, lanes)
                value = take(k, wide, range(lanes - 1, -1, -1))
            else:
                wide = load(k, source, k.mul(turn.index, step), dtype, lanes * step)
                value = take(k, wide, range(0, lanes * step, step))
            store(k, value, target, turn.index, dtype)
    with loop(k, start, count, name="element") as turn:
        store(k, load(k, source, k.mul(turn.index, step), dtype), target, turn.index, dtype)


def emit_copy_tiles(k: Kernel, spec: CopyTilesSpec) -> None:
    """target[offset + sum(i * t) + b * tb + a] = source[offset' + sum(i * s) + a * sa + b], by square tiles.

    A unit is `group` tiles side by side along b: the source is read in runs of several cache lines.
    """
    dtype, side, group = word(spec.size), spec.side, spec.group
    args = k.args(CopyTilesArgs[ir.Value], spec)
    size_a, size_b, source_a, target_b = args.size_a, args.size_b, args.source_a, args.target_b
    tiles_a = k.max(k.div(k.add(size_a, side - 1), side), 1)
    groups_b = k.max(k.div(k.add(size_b, side * group - 1), side * group), 1)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with segments(k, begin, end, tiles_a) as (outer, first, last):
        at = coordinates(k, k.div(outer, groups_b), args.sizes)
        group_begin = k.mul(k.rem(outer, groups_b), side * group)
        target_base = offset_at(k, at, args.target_strides, args.target_start)
        source_base = offset_at(k, at, args.source_strides, args.source_start)
        group_end = k.min(size_b, k.add(group_begin, side * group))
        with loop(k, first, last, name="tile") as tile, loop(k, group_begin, group_end, side, name="b") as place:
            a, b = k.mul(tile.index, side), place.index
            rows, columns = k.min(k.sub(size_a, a), side), k.min(k.sub(size_b, b), side)
            target = k.at(k.pointer(0), k.add(k.add(target_base, a), k.mul(b, target_b)), dtype)
            source = k.at(k.pointer(1), k.add(k.add(source_base, b), k.mul(a, source_a)), dtype)
            move_part(k, Rows(target, target_b), Rows(source, source_a), dtype, side, (rows, columns))


def emit_copy_interleaved(k: Kernel, spec: CopyInterleavedSpec) -> None:
    """target[offset + sum(i * t) + j * ways + way] = source[offset' + sum(i * s) + way * source_way + j]"""
    dtype, ways = word(spec.size), spec.ways
    lanes = k.target.lanes(dtype)
    args = k.args(CopyInterleavedArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    pieces = k.max(k.div(k.add(args.length, k.sub(args.piece, 1)), args.piece), 1)
    with segments(k, begin, end, pieces) as (outer, first, last):
        at = coordinates(k, outer, args.sizes)
        target_base = offset_at(k, at, args.target_strides, args.target_start)
        source_base = offset_at(k, at, args.source_strides, args.source_start)
        with loop(k, first, last, name="piece") as piece:
            start = k.mul(piece.index, args.piece)
            count = k.min(k.sub(args.length, start), args.piece)
            target = k.at(k.pointer(0), k.add(target_base, k.mul(start, ways)), dtype)
            row = k.add(source_base, start)
            rows = [k.at(k.pointer(1), k.add(row, k.mul(args.source_way, way)), dtype) for way in range(ways)]
            whole = k.mul(k.div(count, lanes), lanes)
            with loop(k, 0, whole, lanes, name="vector") as turn:
                values = [load(k, each, turn.index, dtype, lanes) for each in rows]
                store(k, interleave(k, values), target, k.mul(turn.index, ways), dtype)
            with loop(k, whole, count, name="element") as turn:
                for way, each in enumerate(rows):
                    store(k, load(k, each, turn.index, dtype), target, k.add(k.mul(turn.index, ways), way), dtype)
