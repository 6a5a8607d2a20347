"""cumsum: running sums, a whole row at a time where the axis is not the last."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.vectors import constant
from treadle.plan.kernels.cumsum import CumsumArgs, CumsumSpec


def emit_cumsum(k: Kernel, spec: CumsumSpec) -> None:
    """y[o, j, i] = sum of x[o, 0..j, i]; without x[o, j, i] if `exclusive`; from the end if `reverse`.

    A unit is an o.
    """
    args = k.args(CumsumArgs[ir.Value], spec)
    lanes = 1 if spec.single else k.target.lanes(spec.dtype)
    size, inner = args.size, args.inner
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="outer") as outer:
        base = k.mul(outer.index, k.mul(size, inner))
        whole = k.mul(k.div(inner, lanes), lanes)
        with loop(k, 0, whole, lanes, name="column") as column:
            _column(k, spec, base, column.index, (size, inner), lanes)
        if lanes > 1:
            with loop(k, whole, inner, name="rest") as column:
                _column(k, spec, base, column.index, (size, inner), 1)


def _column(k: Kernel, spec: CumsumSpec, base: Index, at: Index, sizes: tuple[Index, Index], lanes: int) -> None:
    """The running sums of `lanes` neighbouring columns."""
    dtype = spec.dtype
    size, inner = sizes
    add = k.b.fadd if dtype.is_float else k.b.add
    with loop(k, 0, size, carry=[constant(dtype, 0, lanes)], name="step") as step:
        row = k.sub(k.sub(size, 1), step.index) if spec.reverse else step.index
        place = k.add(k.add(base, k.mul(row, inner)), at)
        total: ir.Value = add(step.carry[0], load(k, k.pointer(1), place, dtype, lanes))
        store(k, step.carry[0] if spec.exclusive else total, k.pointer(0), place, dtype)
        step.next(total)
