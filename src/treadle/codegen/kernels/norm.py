"""Normalisation of rows by their own mean and variance, or root mean square, in f32 or f64."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.math_base import mad
from treadle.codegen.emit.memory import load, store, store_masked
from treadle.codegen.emit.types import DOUBLE
from treadle.codegen.emit.vectors import splat, unary_intrinsic
from treadle.codegen.kernels.fold import Fold, each_vector, fold_row, reader
from treadle.dtypes import f64
from treadle.plan.kernels.norm import NormRowsArgs, NormRowsSpec

Operand = Callable[[Index, ir.Value | None], ir.Value]


def emit_norm_rows(k: Kernel, spec: NormRowsSpec) -> None:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias for each row of n elements.

    Without `centred`, mean is 0 and variance the mean square. A row is made of segments.
    """
    args = k.args(NormRowsArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.rows, args.rows_per_chunk)
    n, length, segments = args.n, args.length, args.segments
    dtype, lanes = spec.dtype, spec.lanes
    epsilon = k.b.bitcast(args.epsilon, DOUBLE)
    scale, bias = _pointers(k, spec)
    with loop(k, begin, end, name="row") as row:
        start = k.mul(row.index, n)
        y, x = (k.at(k.pointer(number), start, dtype) for number in range(2))
        read = reader(k, x, dtype, lanes, dtype)
        mean = _mean(k, spec, read, n) if spec.centred else None
        spread = _mean(k, spec, _squares(k, read, mean, lanes), n)
        wide = k.b.fadd(convert(k, spread, dtype, f64), epsilon)
        factor = k.b.fdiv(ir.Constant(DOUBLE, 1.0), unary_intrinsic(k, "sqrt", wide))
        first = k.mul(k.rem(row.index, args.turn), segments)
        with loop(k, 0, segments, name="segment") as segment:
            number = k.add(first, segment.index)
            scales = _operand(k, spec, spec.scale, scale, number)
            biases = _operand(k, spec, spec.bias, bias, number)
            gain = splat(k, convert(k, factor, f64, dtype), lanes)
            middle = None if mean is None else splat(k, mean, lanes)

            def write(index: Index, mask: ir.Value | None) -> None:
                value = read(index, mask)
                value = value if middle is None else k.b.fsub(value, middle)
                value = k.b.fmul(value, gain)
                factors = None if scales is None else scales(index, mask)
                summands = None if biases is None else biases(index, mask)
                if factors is not None and summands is not None:
                    value = mad(k, value, factors, summands)
                elif factors is not None:
                    value = k.b.fmul(value, factors)
                elif summands is not None:
                    value = k.b.fadd(value, summands)
                if mask is None:
                    store(k, value, y, index, dtype)
                else:
                    store_masked(k, value, y, index, dtype, mask)

            begin_at = k.mul(segment.index, length)
            each_vector(k, write, begin_at, k.add(begin_at, length), lanes, 4)


def _pointers(k: Kernel, spec: NormRowsSpec) -> tuple[ir.Value | None, ir.Value | None]:
    has_scale, has_bias = spec.scale != "none", spec.bias != "none"
    return k.pointer(2) if has_scale else None, k.pointer(2 + has_scale) if has_bias else None


def _mean(k: Kernel, spec: NormRowsSpec, read: Operand, n: ir.Value) -> ir.Value:
    """The mean of read(0 .. n), as a scalar of the row's dtype"""
    dtype = spec.dtype
    total, wide = fold_row(k, Fold("sum", dtype), read, 0, n, spec.lanes, long=spec.long)
    mean = k.b.fdiv(convert(k, total, wide, f64), k.b.sitofp(n, DOUBLE))
    return convert(k, mean, f64, dtype)


def _squares(k: Kernel, read: Operand, mean: ir.Value | None, lanes: int) -> Operand:
    middle = None if mean is None else splat(k, mean, lanes)

    def square(index: Index, mask: ir.Value | None) -> ir.Value:
        value = read(index, mask)
        value = value if middle is None else k.b.fsub(value, middle)
        return k.b.fmul(value, value)

    return square


def _operand(k: Kernel, spec: NormRowsSpec, mode: str, base: ir.Value | None, segment: Index) -> Operand | None:
    """Reads the scale or bias, which `mode` says, of an element of the row."""
    if base is None:
        return None
    dtype, lanes = spec.dtype, spec.lanes
    if mode == "element":
        return reader(k, base, dtype, lanes, dtype)
    one = splat(k, load(k, base, segment if mode == "segment" else 0, dtype), lanes)
    return lambda _index, _mask: one
