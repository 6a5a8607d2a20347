"""One axis of a linear or cubic resize: each position is a weighted sum of a few positions of the input."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.ranges import segments
from treadle.codegen.emit.vectors import constant, fma, splat
from treadle.dtypes import i64
from treadle.plan.kernels.resample import ResampleArgs, ResampleSpec


def emit_resample(k: Kernel, spec: ResampleSpec) -> None:
    """y[o, j, :] = sum over t of x[o, indices[j, t], :] * weights[j, t]. A unit is a row of y (o, j)."""
    args = k.args(ResampleArgs[ir.Value], spec)
    dtype = spec.dtype
    lanes = k.target.lanes(dtype)
    taps, length = args.taps, args.length
    y, x, indices, weights = (k.pointer(i) for i in range(4))
    begin, end = k.chunk_range(args.units, args.units_per_chunk)

    def mix(source: Index, entry: Index, offset: Index, width: int, mask: ir.Value | None) -> ir.Value:
        nothing = constant(dtype, 0.0, width)
        with loop(k, 0, taps, carry=[nothing], name="tap") as tap:
            at = k.add(entry, tap.index)
            row = k.add(k.mul(k.add(source, load(k, indices, at, i64)), length), offset)
            value = load(k, x, row, dtype, width) if mask is None else load_masked(k, x, row, dtype, mask, nothing)
            tap.next(fma(k, value, splat(k, load(k, weights, at, dtype), width), tap.carry[0]))
        return tap.carry[0]

    with (
        segments(k, begin, end, args.out_size) as (outer, first, last),
        loop(k, first, last, name="position") as position,
    ):
        source, entry = k.mul(outer, args.size), k.mul(position.index, taps)
        row = k.add(k.mul(outer, args.out_size), position.index)
        if spec.single:
            store(k, mix(source, entry, 0, 1, None), y, row, dtype)
        else:
            target = k.mul(row, length)
            whole = k.mul(k.div(length, lanes), lanes)
            with loop(k, 0, whole, lanes, name="vector") as turn:
                store(k, mix(source, entry, turn.index, lanes, None), y, k.add(target, turn.index), dtype)
            rest = k.sub(length, whole)
            with when(k, k.less(0, rest)):
                mask = lane_mask(k, rest, lanes)
                store_masked(k, mix(source, entry, whole, lanes, mask), y, k.add(target, whole), dtype, mask)
