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
from treadle.records import dataclass


def emit_interpolation(k: Kernel, spec: InterpolationSpec) -> None:
    """indices[i, t], weights[i, t] for the taps t of position i. A unit is a position."""
    args = k.args(InterpolationArgs[ir.Value], spec)
    curve = _cubic(k, k.b.bitcast(args.coefficient, DOUBLE)) if spec.cubic else _triangle(k)
    scale = k.b.bitcast(args.scale, DOUBLE)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="position") as position:
        at = coordinate(k, spec.coordinate_mode, position.index, (args.size, args.units), scale)
        left = k.b.fptosi(k.b.fsub(ceil(k, at), DOUBLE(1.0)), I64)
        with either(k, k.b.icmp_signed("==", args.taps, I64(1))) as (copied, mixed):
            with copied:
                _store_tap(k, spec, position.index, position.index, DOUBLE(1.0))
            with mixed:
                place = k.mul(position.index, args.taps)
                centre = _Centre(at, left, scale, curve)
                (_store_wide if spec.antialias else _store_narrow)(k, spec, args, centre, place)


@dataclass(frozen=True, slots=True)
class _Centre:
    """Where a position lies on the axis of x, the element to its left, the scale of the axis, and the curve."""

    at: ir.Value
    left: Index
    scale: ir.Value
    curve: Callable[[ir.Value], ir.Value]


def _store_narrow(
    k: Kernel, spec: InterpolationSpec, args: InterpolationArgs[ir.Value], centre: _Centre, place: Index
) -> None:
    """The taps of one position, from entry `place` on: as many as the curve has."""
    taps, first = (4, -1) if spec.cubic else (2, 0)
    neighbours = [k.add(centre.left, first + tap) for tap in range(taps)]
    weights = [centre.curve(absolute(k, k.b.fsub(_real(k, neighbour), centre.at))) for neighbour in neighbours]
    if spec.exclude_outside:
        weights = _inside_alone(k, neighbours, weights, args.size)
    for tap in range(taps):
        _store_tap(k, spec, k.add(place, tap), _clamped(k, neighbours[tap], args.size), weights[tap])


def _store_wide(
    k: Kernel, spec: InterpolationSpec, args: InterpolationArgs[ir.Value], centre: _Centre, place: Index
) -> None:
    """The taps of one position, from entry `place` on, whose weights are scaled to a sum of 1."""
    before = k.sub(1, k.div(args.taps, 2))
    shrink = k.b.select(k.b.fcmp_ordered("<", centre.scale, DOUBLE(1.0)), centre.scale, DOUBLE(1.0))

    def neighbour(tap: Index) -> Index:
        return k.add(k.add(centre.left, before), tap)

    def weight(tap: Index) -> ir.Value:
        distance = k.b.fmul(k.b.fsub(_real(k, neighbour(tap)), centre.at), shrink)
        return centre.curve(absolute(k, distance))

    def inside(tap: Index, total: ir.Value) -> ir.Value:
        kept = k.b.icmp_unsigned("<", as_i64(neighbour(tap)), args.size)
        return k.b.select(kept, k.b.fdiv(weight(tap), total), DOUBLE(0.0))

    total = _sum(k, args.taps, weight)
    rest = _sum(k, args.taps, lambda tap: inside(tap, total)) if spec.exclude_outside else None
    with loop(k, 0, args.taps, name="tap") as tap:
        if rest is None:
            found = k.b.fdiv(weight(tap.index), total)
        else:
            found = k.b.fdiv(inside(tap.index, total), _or_one(k, rest))
        _store_tap(k, spec, k.add(place, tap.index), _clamped(k, neighbour(tap.index), args.size), found)


def _sum(k: Kernel, count: Index, term: Callable[[Index], ir.Value]) -> ir.Value:
    with loop(k, 0, count, carry=[DOUBLE(0.0)], name="sum") as turn:
        turn.next(k.b.fadd(turn.carry[0], term(turn.index)))
    return turn.carry[0]


def _or_one(k: Kernel, total: ir.Value) -> ir.Value:
    """`total`, or 1 where it is 0."""
    return k.b.select(k.b.fcmp_ordered("==", total, DOUBLE(0.0)), DOUBLE(1.0), total)


def _clamped(k: Kernel, index: Index, size: ir.Value) -> Index:
    return k.max(k.min(index, k.sub(size, 1)), 0)


def _store_tap(k: Kernel, spec: InterpolationSpec, at: Index, index: Index, weight: ir.Value) -> None:
    store(k, as_i64(index), k.pointer(0), at, i64)
    store(k, convert(k, weight, f64, spec.dtype), k.pointer(1), at, spec.dtype)


def _real(k: Kernel, index: Index) -> ir.Value:
    return k.b.sitofp(as_i64(index), DOUBLE)


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
    return [k.b.fdiv(weight, _or_one(k, total)) for weight in kept]
