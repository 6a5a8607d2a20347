"""gather, gather_elements, gather_nd: rows and elements picked by indices that are only known at run time."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, prefetch, store
from treadle.codegen.emit.ranges import coordinates, segments
from treadle.codegen.emit.rows import copy_row, word
from treadle.codegen.emit.types import I64
from treadle.dtypes import DType, i32, i64
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.plan.target import LINE


def checked_index(k: Kernel, indices: ir.Value, at: Index, wide: bool, size: ir.Value) -> ir.Value:
    """indices[at], counted from the front; the kernel fails unless it is in -size .. size - 1.

    `wide`: the indices are i64, else i32.
    """
    index = _given_index(k, indices, at, wide)
    index = k.b.select(k.less(index, 0), k.b.add(index, size), index)
    k.fail_if(k.b.icmp_unsigned(">=", index, size), INDEX_OUT_OF_RANGE)
    return index


def _given_index(k: Kernel, indices: ir.Value, at: Index, wide: bool) -> ir.Value:
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
        """Where row indices[at] begins; the kernel fails unless there is one."""
        return k.mul(checked_index(k, self.indices, at, self.wide, self.size), self.length)

    def prefetch(self, k: Kernel, at: Index, lines: int, offset: Index = 0) -> None:
        """Ask for `lines` of the cache, from element `offset` on, of row indices[at], which need not be there."""
        index = _given_index(k, self.indices, at, self.wide)
        start = k.b.add(k.b.mul(index, self.length), as_i64(offset))
        bytes_ = k.b.mul(start, I64(self.dtype.size))
        for line in range(lines):
            prefetch(k, self.x, k.b.add(bytes_, I64(line * LINE)))


def emit_gather(k: Kernel, spec: KernelSpec) -> None:
    """y[o, j, :] = x[o, indices[j], :]. A unit is a row of y. While one is copied, that `ahead` of it is asked for.

    args: units, units a chunk, number of indices, length of the axis, length of a row, ahead.
    Pointers: y, x, indices. params: size (bytes an element), wide (indices are i64), single (rows of one element),
    lines (of the cache to ask for ahead; maybe none).
    """
    dtype, wide = word(spec["size"]), spec["wide"]
    units, per_chunk, picks, size, length, ahead = (k.arg(i) for i in range(6))
    y, x, indices = (k.pointer(i) for i in range(3))
    table = Table(x, indices, wide, size, length, dtype)
    begin, end = k.chunk_range(units, per_chunk)
    with segments(k, begin, end, picks) as (outer, first, last):
        offset = k.mul(k.mul(outer, size), length)
        turn = k.max(first, k.min(k.sub(picks, ahead), last)) if spec["lines"] else first
        if spec["lines"]:
            with loop(k, first, turn, name="pick") as pick:
                table.prefetch(k, k.add(pick.index, ahead), spec["lines"], offset)
                _copy_pick(k, spec, table, y, k.add(k.mul(outer, picks), pick.index), pick.index, offset)
        with loop(k, turn, last, name="rest") as pick:
            _copy_pick(k, spec, table, y, k.add(k.mul(outer, picks), pick.index), pick.index, offset)


def _copy_pick(k: Kernel, spec: KernelSpec, table: Table, y: ir.Value, unit: Index, pick: Index, offset: Index) -> None:
    """Row `unit` of y is that which index number `pick` picks, `offset` elements behind the first of x."""
    dtype, source = table.dtype, k.add(offset, table.start(k, pick))
    if spec["single"]:
        store(k, load(k, table.x, source, dtype), y, unit, dtype)
    else:
        copy_row(k, k.at(y, k.mul(unit, table.length), dtype), k.at(table.x, source, dtype), table.length, dtype)


def emit_gather_elements(k: Kernel, spec: KernelSpec) -> None:
    """y[i] = x[i with coordinate `axis` replaced by indices[i]]. A unit is a row of y along its last axis.

    args: units, units a chunk, length of the axis in x, stride of the axis in x; then the shape of y and
    the strides of x (that of the axis counts as 0). params: size, wide, rank >= 1.
    """
    dtype, wide, rank = word(spec["size"]), spec["wide"], spec["rank"]
    units, per_chunk, size, stride = (k.arg(i) for i in range(4))
    shape, strides = ([k.arg(4 + part * rank + i) for i in range(rank)] for part in range(2))
    y, x, indices = (k.pointer(i) for i in range(3))
    begin, end = k.chunk_range(units, per_chunk)
    with loop(k, begin, end, name="row") as row:
        base: Index = 0
        for coordinate, step in zip(coordinates(k, row.index, shape[:-1]), strides, strict=False):
            base = k.add(base, k.mul(coordinate, step))
        first = k.mul(row.index, shape[-1])
        with loop(k, 0, shape[-1], name="element") as element:
            at = k.add(first, element.index)
            index = checked_index(k, indices, at, wide, size)
            source = k.add(k.add(base, k.mul(element.index, strides[-1])), k.mul(index, stride))
            store(k, load(k, x, source, dtype), y, at, dtype)


def row_of(k: Kernel, indices: ir.Value, at: Index, depth: int, wide: bool, first_arg: int) -> Index:
    """The flat position that the `depth` indices from indices[at] on address: sum of index * stride.

    The lengths of the addressed axes, then their strides, are the arguments from `first_arg` on.
    """
    place: Index = 0
    for i in range(depth):
        index = checked_index(k, indices, k.add(at, i), wide, k.arg(first_arg + i))
        place = k.add(place, k.mul(index, k.arg(first_arg + depth + i)))
    return place


def emit_gather_nd(k: Kernel, spec: KernelSpec) -> None:
    """y[b, j, :] = x[b, indices[b, j, 0], ..., indices[b, j, depth - 1], :]. A unit is a row of y.

    args: units, units a chunk, rows a batch, elements of x a batch, length of a row; then lengths and
    strides of the addressed axes. params: size, wide, depth.
    """
    dtype, wide, depth = word(spec["size"]), spec["wide"], spec["depth"]
    units, per_chunk, picks, batch, length = (k.arg(i) for i in range(5))
    y, x, indices = (k.pointer(i) for i in range(3))
    begin, end = k.chunk_range(units, per_chunk)
    with segments(k, begin, end, picks) as (outer, first, last), loop(k, first, last, name="pick") as pick:
        row = k.add(k.mul(outer, picks), pick.index)
        source = k.add(k.mul(outer, batch), row_of(k, indices, k.mul(row, depth), depth, wide, 5))
        copy_row(k, k.at(y, k.mul(row, length), dtype), k.at(x, source, dtype), length, dtype)
