"""interpolation: which elements a position of a resized axis mixes, and how much of each.

Operations and their order are those of `ops.interpolation`, in f64, so that tables are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.math_base import absolute
from treadle.codegen.emit.math_round import ceil
from treadle.codegen.emit.memory import store
from treadle.codegen.emit.types import DOUBLE, I64
from treadle.codegen.emit.vectors import like
from treadle.dtypes import f64, i64
from treadle.plan.kernels.interpolation import InterpolationArgs, InterpolationSpec


def emit_interpolation(k: Kernel, spec: InterpolationSpec) -> None:
    """indices[i, t], weights[i, t] for the taps t of position i. A unit is a position."""
    args = k.args(InterpolationArgs[ir.Value], spec)
    curve = _cubic(k, k.b.bitcast(args.coefficient, DOUBLE)) if spec.cubic else _triangle(k)
    taps, first = (4, -1) if spec.cubic else (2, 0)
    scale = scale_of(k, args.numerator, args.denominator)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="position") as position:
        at = coordinate(k, spec.coordinate_mode, position.index, (args.size, args.units), scale)
        left = k.b.fptosi(k.b.fsub(ceil(k, at), DOUBLE(1.0)), I64)
        neighbours = [k.add(left, first + tap) for tap in range(taps)]
        weights = [curve(absolute(k, k.b.fsub(_real(k, neighbour), at))) for neighbour in neighbours]
        if spec.exclude_outside:
            weights = _inside_alone(k, neighbours, weights, args.size)
        with either(k, k.b.icmp_signed("==", args.taps, I64(1))) as (copied, mixed):
            with copied:
                _store_tap(k, spec, position.index, position.index, DOUBLE(1.0))
            with mixed:
                row = k.mul(position.index, taps)
                for tap in range(taps):
                    index = k.max(k.min(neighbours[tap], k.sub(args.size, 1)), 0)
                    _store_tap(k, spec, k.add(row, tap), index, weights[tap])


def _store_tap(k: Kernel, spec: InterpolationSpec, at: Index, index: Index, weight: ir.Value) -> None:
    store(k, as_i64(index), k.pointer(0), at, i64)
    store(k, convert(k, weight, f64, spec.dtype), k.pointer(1), at, spec.dtype)


def _real(k: Kernel, index: Index) -> ir.Value:
    return k.b.sitofp(as_i64(index), DOUBLE)


def scale_of(k: Kernel, numerator: ir.Value, denominator: ir.Value) -> ir.Value:
    """numerator / denominator in f64."""
    return k.b.fdiv(_real(k, numerator), _real(k, denominator))


def coordinate(k: Kernel, mode: str, position: ir.Value, sizes: tuple[ir.Value, ir.Value], scale: ir.Value) -> ir.Value:
    """Where `position` of the result lies on the axis of x, in the type of `scale`; `sizes` are those of x and of the
    result."""

    def real(index: Index) -> ir.Value:
        return k.b.sitofp(as_i64(index), scale.type)

    size, out = sizes
    at, half = real(position), like(scale, 0.5)
    if mode == "asymmetric":
        return k.b.fdiv(at, scale)
    if mode == "align_corners":
        return k.b.fdiv(k.b.fmul(at, real(k.sub(size, 1))), real(k.max(k.sub(out, 1), 1)))
    found = k.b.fsub(k.b.fdiv(k.b.fadd(at, half), scale), half)
    if mode == "pytorch_half_pixel":
        return k.b.select(k.b.icmp_signed("==", out, I64(1)), like(scale, 0.0), found)
    if mode == "half_pixel_symmetric":
        covered = k.b.fdiv(real(out), k.b.fmul(scale, real(size)))
        return k.b.fadd(found, k.b.fmul(k.b.fmul(real(size), half), k.b.fsub(like(scale, 1.0), covered)))
    return found


def _triangle(k: Kernel) -> Callable[[ir.Value], ir.Value]:
    def curve(distance: ir.Value) -> ir.Value:
        weight = k.b.fsub(DOUBLE(1.0), distance)
        return k.b.select(k.b.fcmp_ordered(">", weight, DOUBLE(0.0)), weight, DOUBLE(0.0))

    return curve


def _cubic(k: Kernel, coefficient: ir.Value) -> Callable[[ir.Value], ir.Value]:
    def curve(x: ir.Value) -> ir.Value:
        add, sub, mul = k.b.fadd, k.b.fsub, k.b.fmul
        near = sub(mul(add(coefficient, DOUBLE(2.0)), x), add(coefficient, DOUBLE(3.0)))
        near = add(mul(mul(near, x), x), DOUBLE(1.0))
        far = mul(mul(add(mul(sub(x, DOUBLE(5.0)), x), DOUBLE(8.0)), x), coefficient)
        far = sub(far, mul(DOUBLE(4.0), coefficient))
        far = k.b.select(k.b.fcmp_ordered("<", x, DOUBLE(2.0)), far, DOUBLE(0.0))
        return k.b.select(k.b.fcmp_ordered("<=", x, DOUBLE(1.0)), near, far)

    return curve


def _inside_alone(k: Kernel, neighbours: list[Index], weights: list[ir.Value], size: ir.Value) -> list[ir.Value]:
    """The weights without those beyond the ends, scaled to a sum of 1."""
    kept = [
        k.b.select(k.b.icmp_unsigned("<", as_i64(neighbour), size), weight, DOUBLE(0.0))
        for neighbour, weight in zip(neighbours, weights, strict=True)
    ]
    total = kept[0]
    for weight in kept[1:]:
        total = k.b.fadd(total, weight)
    total = k.b.select(k.b.fcmp_ordered("==", total, DOUBLE(0.0)), DOUBLE(1.0), total)
    return [k.b.fdiv(weight, total) for weight in kept]
