"""trilu: each row of a matrix is part copied, part zero."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.ranges import segments
from treadle.codegen.emit.rows import copy_row, fill_row, word
from treadle.codegen.emit.vectors import constant
from treadle.plan.kernels.trilu import TriluArgs, TriluSpec


def emit_trilu(k: Kernel, spec: TriluSpec) -> None:
    """y[b, r, c] = x[b, r, c] where c - r >= diagonal (`upper`) or <= diagonal, else 0. A unit is a row."""
    dtype, upper = word(spec.size), spec.upper
    args = k.args(TriluArgs[ir.Value], spec)
    rows, columns = args.rows, args.columns
    zero = constant(dtype, 0)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with segments(k, begin, end, rows) as (batch, first, last), loop(k, first, last, name="row") as row:
        offset = k.mul(k.add(k.mul(batch, rows), row.index), columns)
        target, source = k.at(k.pointer(0), offset, dtype), k.at(k.pointer(1), offset, dtype)
        edge = k.add(k.add(row.index, args.diagonal), 0 if upper else 1)
        edge = k.min(k.max(edge, 0), columns)
        low, high = (edge, columns) if upper else (0, edge)
        copy_row(k, k.at(target, low, dtype), k.at(source, low, dtype), k.sub(high, low), dtype)
        low, high = (0, edge) if upper else (edge, columns)
        fill_row(k, k.at(target, low, dtype), zero, k.sub(high, low), dtype)
