"""gather, gather_elements, gather_nd: rows and elements picked by indices that are only known at run time."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, prefetch, store
from treadle.codegen.emit.ranges import coordinates, offset_at, segments
from treadle.codegen.emit.rows import copy_row, word
from treadle.codegen.emit.types import I64
from treadle.dtypes import DType, i32, i64
from treadle.plan.kernels.gather import (
    GatherArgs,
    GatherElementsArgs,
    GatherElementsSpec,
    GatherNdArgs,
    GatherNdSpec,
    GatherSpec,
)
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.plan.target import LINE
from treadle.records import dataclass


def checked_index(k: Kernel, indices: ir.Value, at: Index, wide: bool, size: ir.Value) -> ir.Value:
    """indices[at], counted from the front; the kernel fails unless it is in -size .. size - 1.

    `wide`: the indices are i64, else i32.
    """
    index = _stored_index(k, indices, at, wide)
    index = k.b.select(k.less(index, 0), k.b.add(index, size), index)
    k.fail_if(k.b.icmp_unsigned(">=", index, size), INDEX_OUT_OF_RANGE)
    return index


def _stored_index(k: Kernel, indices: ir.Value, at: Index, wide: bool) -> ir.Value:
    """indices[at] as an i64."""
    index = load(k, indices, at, i64 if wide else i32)
    return index if wide else k.b.sext(index, I64)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of x [size, length] that `indices` pick, which are i64 if they are `wide`, else i32."""

    x: ir.Value
    indices: ir.Value
    wide: bool
    size: ir.Value
    length: ir.Value
    dtype: DType

    def start(self, k: Kernel, at: Index) -> Index:
        """The offset of row indices[at]; the kernel fails unless there is such a row."""
        return k.mul(checked_index(k, self.indices, at, self.wide, self.size), self.length)

    def prefetch(self, k: Kernel, at: Index, lines: int, offset: Index = 0) -> None:
        """Prefetches `lines` cache lines of row indices[at], from element `offset` on; the row need not exist."""
        index = _stored_index(k, self.indices, at, self.wide)
        start = k.b.add(k.b.mul(index, self.length), as_i64(offset))
        bytes_ = k.b.mul(start, I64(self.dtype.size))
        for line in range(lines):
            prefetch(k, self.x, k.b.add(bytes_, I64(line * LINE)))


def emit_gather(k: Kernel, spec: GatherSpec) -> None:
    """y[o, j, :] = x[o, indices[j], :]. A unit is a row of y. Prefetches the row copied `distance` rows later."""
    args = k.args(GatherArgs[ir.Value], spec)
    picks, distance = args.picks, args.distance
    y, x, indices = (k.pointer(i) for i in range(3))
    table = Table(x, indices, spec.wide, args.size, args.length, word(spec.size))
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with segments(k, begin, end, picks) as (outer, first, last):
        offset = k.mul(k.mul(outer, args.size), args.length)
        turn = k.max(first, k.min(k.sub(picks, distance), last)) if spec.lines else first
        if spec.lines:
            with loop(k, first, turn, name="pick") as pick:
                table.prefetch(k, k.add(pick.index, distance), spec.lines, offset)
                _copy_pick(k, spec, table, y, k.add(k.mul(outer, picks), pick.index), pick.index, offset)
        with loop(k, turn, last, name="rest") as pick:
            _copy_pick(k, spec, table, y, k.add(k.mul(outer, picks), pick.index), pick.index, offset)


def _copy_pick(k: Kernel, spec: GatherSpec, table: Table, y: ir.Value, unit: Index, pick: Index, offset: Index) -> None:
    """Copies the row that index number `pick` picks, of the table that is `offset` elements behind the start of x, to
    row `unit` of y."""
    dtype, source = table.dtype, k.add(offset, table.start(k, pick))
    if spec.single:
        store(k, load(k, table.x, source, dtype), y, unit, dtype)
    else:
        copy_row(k, k.at(y, k.mul(unit, table.length), dtype), k.at(table.x, source, dtype), table.length, dtype)


def emit_gather_elements(k: Kernel, spec: GatherElementsSpec) -> None:
    """y[i] = x[i with coordinate `axis` replaced by indices[i]]. A unit is a row of y along its last axis."""
    args = k.args(GatherElementsArgs[ir.Value], spec)
    dtype, shape, strides = word(spec.size), args.shape, args.strides
    y, x, indices = (k.pointer(i) for i in range(3))
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="row") as row:
        base = offset_at(k, coordinates(k, row.index, shape[:-1]), strides)
        first = k.mul(row.index, shape[-1])
        with loop(k, 0, shape[-1], name="element") as element:
            at = k.add(first, element.index)
            index = checked_index(k, indices, at, spec.wide, args.size)
            source = k.add(k.add(base, k.mul(element.index, strides[-1])), k.mul(index, args.stride))
            store(k, load(k, x, source, dtype), y, at, dtype)


def row_of(
    k: Kernel, indices: ir.Value, at: Index, wide: bool, sizes: Sequence[ir.Value], strides: Sequence[ir.Value]
) -> Index:
    """The offset that the indices from indices[at] on address, one for each of the axes of `sizes` and `strides`."""
    offset: Index = 0
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        index = checked_index(k, indices, k.add(at, i), wide, size)
        offset = k.add(offset, k.mul(index, stride))
    return offset


def emit_gather_nd(k: Kernel, spec: GatherNdSpec) -> None:
    """y[b, j, :] = x[b, indices[b, j, 0], ..., indices[b, j, depth - 1], :]. A unit is a row of y."""
    args = k.args(GatherNdArgs[ir.Value], spec)
    dtype, picks, length = word(spec.size), args.picks, args.length
    y, x, indices = (k.pointer(i) for i in range(3))
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with segments(k, begin, end, picks) as (outer, first, last), loop(k, first, last, name="pick") as pick:
        row = k.add(k.mul(outer, picks), pick.index)
        start = k.mul(outer, args.batch)
        source = k.add(start, row_of(k, indices, k.mul(row, spec.depth), spec.wide, args.sizes, args.strides))
        copy_row(k, k.at(y, k.mul(row, length), dtype), k.at(x, source, dtype), length, dtype)
