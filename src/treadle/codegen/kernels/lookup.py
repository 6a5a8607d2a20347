"""Copies whose source offset is the sum of one table entry an axis: pad in every mode, resize to the nearest."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.ranges import coordinates, segments
from treadle.codegen.emit.rows import copy_row, fill_row, word
from treadle.codegen.emit.types import I64
from treadle.dtypes import DType, i64
from treadle.plan.kernels.lookup import LookupArgs, LookupSpec
from treadle.records import dataclass


def emit_lookup(k: Kernel, spec: LookupSpec) -> None:
    """y[i0, ..., i(r-1), :] = x[t0[i0] + ... + t(r-1)[i(r-1)] + :], or `value` where an entry is negative.

    A unit is a row of y: all of its last table axis, each entry of which stands for a run of elements. The middle of a
    row, a range of that axis whose runs follow each other in x, is copied as one run.
    """
    args = k.args(LookupArgs[ir.Value], spec)
    run, low, high, sizes = args.run, args.low, args.high, args.sizes
    y, x, entries, value = (k.pointer(i) for i in range(4))
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    tables = _Tables.of(k, entries, sizes)
    dtype = word(spec.size)
    rows = _Rows(k, tables, y, x, load(k, value, 0, dtype), run, dtype, spec.single)
    inner = sizes[-2] if len(sizes) > 1 else 1
    with segments(k, begin, end, inner) as (outer, first, last):
        at = coordinates(k, outer, sizes[:-2])
        fixed = [tables.entry(axis, coordinate) for axis, coordinate in enumerate(at)]
        with loop(k, first, last, name="row") as row:
            offsets = [*fixed, tables.entry(len(sizes) - 2, row.index)] if len(sizes) > 1 else []
            sign: ir.Value = I64(0)
            base: ir.Value = I64(0)
            for offset in offsets:
                sign, base = k.b.or_(sign, offset), k.b.add(base, offset)
            number = k.add(k.mul(outer, inner), row.index)
            target = k.mul(k.mul(number, sizes[-1]), run)
            with either(k, k.less(sign, 0)) as (outside, inside):
                with outside:
                    rows.fill(target, k.mul(sizes[-1], run))
                with inside:
                    rows.runs(target, base, 0, low)
                    rows.middle(target, base, low, high)
                    rows.runs(target, base, high, sizes[-1])


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of all axes, one after another in memory, of `sizes` entries from `starts` on."""

    k: Kernel
    entries: ir.Value
    sizes: Sequence[Index]
    starts: Sequence[Index]

    @staticmethod
    def of(k: Kernel, entries: ir.Value, sizes: Sequence[Index]) -> _Tables:
        """The tables of `sizes`, of which the first one is at `entries`."""
        starts: list[Index] = [0]
        for size in sizes[:-1]:
            starts.append(k.add(starts[-1], size))
        return _Tables(k, entries, sizes, starts)

    def entry(self, axis: int, at: Index) -> ir.Value:
        """What index `at` of `axis` adds to the offset in x; negative outside of x."""
        return load(self.k, self.entries, self.k.add(self.starts[axis], at), i64)

    def along_row(self, at: Index) -> ir.Value:
        """The entry of index `at` of the last axis."""
        return self.entry(len(self.sizes) - 1, at)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Moves rows of y, which are runs of `run` elements of `dtype`; if `single`, of one element. Runs outside of x
    become `value`.
    """

    k: Kernel
    tables: _Tables
    y: ir.Value
    x: ir.Value
    value: ir.Value
    run: Index
    dtype: DType
    single: bool

    def fill(self, target: Index, count: Index) -> None:
        """Fill `count` elements of y from `target` on."""
        fill_row(self.k, self.k.at(self.y, target, self.dtype), self.value, count, self.dtype)

    def runs(self, target: Index, base: Index, first: Index, last: Index) -> None:
        """Moves the runs `first` to `last` of the row of y at `target`, one by one; `base` is the offset of the row in
        x."""
        k = self.k
        with loop(k, first, last, name="place") as turn:
            offset = self.tables.along_row(turn.index)
            here = k.add(target, k.mul(turn.index, self.run))
            with either(k, k.less(offset, 0)) as (outside, inside):
                with outside:
                    if self.single:
                        store(k, self.value, self.y, here, self.dtype)
                    else:
                        self.fill(here, self.run)
                with inside:
                    source = k.add(base, offset)
                    if self.single:
                        store(k, load(k, self.x, source, self.dtype), self.y, here, self.dtype)
                    else:
                        self.copy(here, source, self.run)

    def middle(self, target: Index, base: Index, low: Index, high: Index) -> None:
        """Moves the runs `low` to `high`, which follow each other in x, at once."""
        k = self.k
        count = k.mul(k.sub(high, low), self.run)
        # An empty middle may stand at the end of the table: entry 0 is always there.
        source = k.add(base, self.tables.along_row(k.b.select(k.less(low, high), low, I64(0))))
        self.copy(k.add(target, k.mul(low, self.run)), source, count)

    def copy(self, target: Index, source: Index, count: Index) -> None:
        """Copy `count` elements from `source` on in x to `target` on in y."""
        k, dtype = self.k, self.dtype
        copy_row(k, k.at(self.y, target, dtype), k.at(self.x, source, dtype), count, dtype)
