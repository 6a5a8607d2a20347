"""Copies whose source place is the sum of one table entry an axis: pad in every mode, resize to the nearest."""

from __future__ import annotations

from llvmlite import ir

from weft.codegen.emit.kernel import Index, Kernel
from weft.codegen.emit.loops import either, loop
from weft.codegen.emit.memory import load, store
from weft.codegen.emit.ranges import coordinates, segments
from weft.codegen.emit.rows import copy_row, fill_row, word
from weft.codegen.emit.types import I64
from weft.dtypes import i64
from weft.plan.kernel_spec import KernelSpec


def emit_lookup(k: Kernel, spec: KernelSpec) -> None:
    """y[i0, ..., i(r-1), :] = x[t0[i0] + ... + t(r-1)[i(r-1)] + :], or `value` where an entry is negative.

    A unit is a row of y: all of its last table axis, each place a run of elements. The middle of a row, a
    range of that axis in which the places follow each other in x, is copied as one run.
    Pointers: y, x, the tables one after another (i64, in elements), value. args: units, units a chunk,
    length of a run, begin and end of the middle; then the `rank` >= 1 sizes. params: size (bytes), rank,
    single (runs of one element).
    """
    dtype, rank = word(spec["size"]), spec["rank"]
    units, per_chunk, run, low, high = (k.arg(i) for i in range(5))
    sizes = [k.arg(5 + i) for i in range(rank)]
    y, x, tables, value = (k.pointer(i) for i in range(4))
    begin, end = k.chunk_range(units, per_chunk)
    starts: list[Index] = [0]
    for size in sizes[:-1]:
        starts.append(k.add(starts[-1], size))
    inner = sizes[-2] if rank > 1 else 1
    fill = load(k, value, 0, dtype)

    def entry(axis: int, at: Index) -> ir.Value:
        return load(k, tables, k.add(starts[axis], at), i64)

    def places(target: Index, base: Index, first: Index, last: Index) -> None:
        """One place of the last axis after another."""
        with loop(k, first, last, name="place") as place:
            offset = entry(rank - 1, place.index)
            here = k.add(target, k.mul(place.index, run))
            with either(k, k.less(offset, 0)) as (outside, inside):
                with outside:
                    if spec["single"]:
                        store(k, fill, y, here, dtype)
                    else:
                        fill_row(k, k.at(y, here, dtype), fill, run, dtype)
                with inside:
                    source = k.add(base, offset)
                    if spec["single"]:
                        store(k, load(k, x, source, dtype), y, here, dtype)
                    else:
                        copy_row(k, k.at(y, here, dtype), k.at(x, source, dtype), run, dtype)

    with segments(k, begin, end, inner) as (outer, first, last):
        at = coordinates(k, outer, sizes[:-2])
        fixed = [entry(axis, coordinate) for axis, coordinate in enumerate(at)]
        with loop(k, first, last, name="row") as row:
            offsets = [*fixed, entry(rank - 2, row.index)] if rank > 1 else []
            sign: ir.Value = I64(0)
            base: ir.Value = I64(0)
            for offset in offsets:
                sign, base = k.b.or_(sign, offset), k.b.add(base, offset)
            number = k.add(k.mul(outer, inner), row.index)
            target = k.mul(k.mul(number, sizes[-1]), run)
            with either(k, k.less(sign, 0)) as (outside, inside):
                with outside:
                    fill_row(k, k.at(y, target, dtype), fill, k.mul(sizes[-1], run), dtype)
                with inside:
                    places(target, base, 0, low)
                    count = k.mul(k.sub(high, low), run)
                    # An empty middle may stand at the end of the table: entry 0 is always there.
                    source = k.add(base, entry(rank - 1, k.b.select(k.less(low, high), low, I64(0))))
                    copy_row(k, k.at(y, k.add(target, k.mul(low, run)), dtype), k.at(x, source, dtype), count, dtype)
                    places(target, base, high, sizes[-1])
