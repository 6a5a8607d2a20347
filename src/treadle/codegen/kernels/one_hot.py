"""one_hot: rows filled with "off", and one element of each set to "on"."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.rows import fill_row, word
from treadle.codegen.emit.types import I64
from treadle.dtypes import i32, i64
from treadle.plan.kernels.one_hot import OneHotArgs, OneHotSpec


def emit_one_hot(k: Kernel, spec: OneHotSpec) -> None:
    """y[o, d, i] = values[indices[o, i] == d], an index below 0 counted from `depth`. A unit is an o."""
    dtype = word(spec.size)
    args = k.args(OneHotArgs[ir.Value], spec)
    depth, inner = args.depth, args.inner
    y, indices, values = (k.pointer(i) for i in range(3))
    off, on = load(k, values, 0, dtype), load(k, values, 1, dtype)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="outer") as outer:
        target = k.at(y, k.mul(outer.index, k.mul(depth, inner)), dtype)
        fill_row(k, target, off, k.mul(depth, inner), dtype)
        with loop(k, 0, inner, name="inner") as turn:
            index = load(k, indices, k.add(k.mul(outer.index, inner), turn.index), i64 if spec.wide else i32)
            index = index if spec.wide else k.b.sext(index, I64)
            index = k.b.select(k.less(index, 0), k.b.add(index, depth), index)
            with when(k, k.b.icmp_unsigned("<", index, depth)):
                store(k, on, target, k.add(k.mul(index, inner), turn.index), dtype)
