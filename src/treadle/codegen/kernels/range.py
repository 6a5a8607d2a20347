"""range: each element is computed from its index, so that chunks do not depend on each other."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import store
from treadle.codegen.emit.types import DOUBLE, vector
from treadle.codegen.emit.vectors import splat
from treadle.dtypes import f64, i64
from treadle.plan.kernels.range import RangeArgs, RangeSpec


def emit_range(k: Kernel, spec: RangeSpec) -> None:
    """y[i] = start + i * delta: floats in f64, each operation rounded; integers wrap around. A unit is an element."""
    args = k.args(RangeArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    start, delta = _number(k, args.start, spec), _number(k, args.delta, spec)
    lanes = k.target.lanes(spec.dtype)
    whole = k.add(begin, k.mul(k.div(k.sub(end, begin), lanes), lanes))
    with loop(k, begin, whole, lanes, name="vector") as turn:
        _elements(k, spec, (start, delta), turn.index, lanes)
    with loop(k, whole, end, name="rest") as turn:
        _elements(k, spec, (start, delta), turn.index, 1)


def _number(k: Kernel, argument: ir.Value, spec: RangeSpec) -> ir.Value:
    """Start or delta in the type that elements are computed in: f64 for floats."""
    if not spec.whole:
        return k.b.bitcast(argument, DOUBLE)
    number = convert(k, argument, i64, spec.dtype)
    return convert(k, number, spec.dtype, f64) if spec.dtype.is_float else number


def _elements(k: Kernel, spec: RangeSpec, sequence: tuple[ir.Value, ir.Value], index: Index, lanes: int) -> None:
    """Writes `lanes` elements of the sequence (start, delta) from `index` on."""
    wide = f64 if spec.dtype.is_float else spec.dtype
    start, delta = (splat(k, number, lanes) for number in sequence)
    multiply, add = (k.b.fmul, k.b.fadd) if wide.is_float else (k.b.mul, k.b.add)
    steps = splat(k, convert(k, as_i64(index), i64, wide), lanes)
    if lanes > 1:
        steps = add(steps, ir.Constant(vector(wide, lanes), [float(i) if wide.is_float else i for i in range(lanes)]))
    store(k, convert(k, add(start, multiply(steps, delta)), wide, spec.dtype), k.pointer(0), index, spec.dtype)
