"""cumulative: running sums, products and extremes, a whole row at a time where the axis is not the last."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.math_exp import exp
from treadle.codegen.emit.math_log import log1p
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.scalar_ops import extreme
from treadle.codegen.emit.vectors import like
from treadle.codegen.kernels.fold import Fold
from treadle.dtypes import DType
from treadle.plan.kernels.cumulative import CumulativeArgs, CumulativeSpec

_FOLDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min", "logcumsumexp": "max"}
"""The fold with the neutral element of each op, which also joins elements but for logcumsumexp."""


def emit_cumulative(k: Kernel, spec: CumulativeSpec) -> None:
    """y[o, j, i] = op of x[o, 0..j, i]; without x[o, j, i] if `exclusive`; from the end if `reverse`.

    A unit is an o.
    """
    args = k.args(CumulativeArgs[ir.Value], spec)
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


def _column(k: Kernel, spec: CumulativeSpec, base: Index, at: Index, sizes: tuple[Index, Index], lanes: int) -> None:
    """The results of `lanes` neighbouring columns."""
    dtype = spec.dtype
    size, inner = sizes
    fold = Fold(_FOLDS[spec.op], dtype)
    with loop(k, 0, size, carry=[fold.neutral(lanes)], name="step") as step:
        row = k.sub(k.sub(size, 1), step.index) if spec.reverse else step.index
        place = k.add(k.add(base, k.mul(row, inner)), at)
        x = load(k, k.pointer(1), place, dtype, lanes)
        logs = spec.op == "logcumsumexp"
        total = _log_of_sum(k, step.carry[0], x, dtype) if logs else fold.join(k, step.carry[0], x)
        store(k, step.carry[0] if spec.exclusive else total, k.pointer(0), place, dtype)
        step.next(total)


def _log_of_sum(k: Kernel, left: ir.Value, right: ir.Value, dtype: DType) -> ir.Value:
    """log(exp(left) + exp(right)), also of infinities; NaN if one is NaN."""
    largest = extreme(k, left, right, dtype, "max")
    distance = k.b.fsub(extreme(k, left, right, dtype, "min"), largest)
    equal = k.b.fcmp_ordered("==", left, right)  # the difference of equal infinities is NaN
    distance = k.b.select(equal, like(distance, 0.0), distance)
    return k.b.fadd(largest, log1p(k, exp(k, distance)))
