"""reverse_sequence: each row of the result is a copy of the row of x that takes its place in the reversed sequence."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.rows import copy_row, word
from treadle.codegen.emit.types import I64
from treadle.dtypes import i32, i64
from treadle.plan.kernels.reverse_sequence import ReverseSequenceArgs, ReverseSequenceSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE


def emit_reverse_sequence(k: Kernel, spec: ReverseSequenceSpec) -> None:
    """y[t, b, :] = x[n - 1 - t if t < n else t, b, :] with n = lengths[b]; with time_first=False the axes are swapped.

    A unit is a row of y. The kernel fails unless every length that it reads is in [0, time].
    """
    args = k.args(ReverseSequenceArgs[ir.Value], spec)
    dtype = word(spec.size)
    y, x, lengths = (k.pointer(i) for i in range(3))
    times = args.outer if spec.time_first else args.inner
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="row") as row:
        outer, inner = k.div(row.index, args.inner), k.rem(row.index, args.inner)
        time, batch = (outer, inner) if spec.time_first else (inner, outer)
        length = load(k, lengths, batch, i64 if spec.wide else i32)
        length = length if spec.wide else k.b.sext(length, I64)
        k.fail_if(k.b.icmp_unsigned(">", length, times), INDEX_OUT_OF_RANGE)
        mirrored = k.sub(k.sub(length, 1), time)
        source = k.b.select(k.less(time, length), as_i64(mirrored), as_i64(time))
        at = k.add(k.mul(source, args.inner), batch) if spec.time_first else k.add(k.mul(batch, args.inner), source)
        copy_row(
            k, k.at(y, k.mul(row.index, args.length), dtype), k.at(x, k.mul(at, args.length), dtype), args.length, dtype
        )
