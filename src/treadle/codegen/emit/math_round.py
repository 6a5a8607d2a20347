"""Rounding to whole numbers and remainders, without calls into the C library on any target."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.lanes import repeat_while
from treadle.codegen.emit.math_base import (
    absolute,
    copysign,
    float_from_bits,
    has_fma,
    is_double,
    mantissa_bits,
    narrow,
    two_product,
    widen,
)
from treadle.codegen.emit.vectors import bits_of, like, unary_intrinsic


def round_even(k: Kernel, x: ir.Value) -> ir.Value:
    """The nearest whole number, halves to even."""
    if _native(k):
        return unary_intrinsic(k, "roundeven", x)
    size = absolute(k, x)
    border = like(x, 2.0 ** mantissa_bits(x))
    rounded = copysign(k, k.b.fsub(k.b.fadd(size, border), border), x)
    return k.b.select(k.b.fcmp_ordered("<", size, border), rounded, x)


def floor(k: Kernel, x: ir.Value) -> ir.Value:
    """The greatest whole number not above x."""
    if _native(k):
        return unary_intrinsic(k, "floor", x)
    near = round_even(k, x)
    above = k.b.fcmp_ordered(">", near, x)
    return copysign(k, k.b.fsub(near, k.b.select(above, like(x, 1.0), like(x, 0.0))), x)


def ceil(k: Kernel, x: ir.Value) -> ir.Value:
    """The least whole number not below x."""
    if _native(k):
        return unary_intrinsic(k, "ceil", x)
    return k.b.fneg(floor(k, k.b.fneg(x)))


def truncate(k: Kernel, x: ir.Value) -> ir.Value:
    """x without its fraction."""
    if _native(k):
        return unary_intrinsic(k, "trunc", x)
    return copysign(k, floor(k, absolute(k, x)), x)


def _native(k: Kernel) -> bool:
    return has_fma(k)


def fmod(k: Kernel, x: ir.Value, y: ir.Value) -> ir.Value:
    """x - y * (x / y without its fraction), exact, with the sign of x; NaN if x is infinite or y is 0."""
    if not is_double(x):
        return narrow(k, fmod(k, widen(k, x), widen(k, y)))
    divisor, infinite = absolute(k, y), like(x, float("inf"))
    defined = k.b.and_(
        k.b.fcmp_ordered("<", absolute(k, x), infinite),
        k.b.fcmp_ordered(">", divisor, like(x, 0.0)),
    )
    rest = k.b.select(defined, absolute(k, x), like(x, 0.0))
    divisor = k.b.select(defined, divisor, like(x, 1.0))
    rest = _reduce_at_once(k, rest, divisor)

    def unfinished(values: list[ir.Value]) -> ir.Value:
        return k.b.fcmp_ordered(">=", values[0], divisor)

    def turn(values: list[ir.Value]) -> list[ir.Value]:
        return [k.b.select(unfinished(values), _reduce_by_half(k, values[0], divisor), values[0])]

    (rest,) = repeat_while(k, [rest], unfinished, turn)
    return k.b.select(defined, copysign(k, rest, x), like(x, float("nan")))


def _reduce_at_once(k: Kernel, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """The remainder where the quotient's whole part has less than 52 bits, else `rest` as it is."""
    quotient = k.b.fdiv(rest, divisor)
    fits = k.b.fcmp_ordered("<", quotient, like(rest, 2.0**52))
    fits = k.b.and_(fits, k.b.fcmp_ordered(">", divisor, like(rest, 2.0**-900)))
    fits = k.b.and_(fits, k.b.fcmp_ordered("<", divisor, like(rest, float("inf"))))
    whole = k.b.select(fits, truncate(k, quotient), like(rest, 0.0))
    product, error = two_product(k, whole, k.b.select(fits, divisor, like(rest, 1.0)))
    near = k.b.fsub(k.b.fsub(rest, product), error)
    rounded_up = k.b.fcmp_ordered("<", near, like(rest, 0.0))
    return k.b.select(rounded_up, k.b.fadd(near, divisor), near)


def _reduce_by_half(k: Kernel, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """`rest` minus the greatest divisor * 2**n that it holds: exact, below half of `rest` or 2 divisors."""

    def small(values: list[ir.Value]) -> ir.Value:
        return k.b.fcmp_ordered("<=", k.b.fadd(values[0], values[0]), rest)

    def double(values: list[ir.Value]) -> list[ir.Value]:
        return [k.b.select(small(values), k.b.fadd(values[0], values[0]), values[0])]

    gap = k.b.sub(_exponent(k, rest), _exponent(k, divisor))
    wide = k.b.icmp_signed(">", gap, like(gap, 2 << 52))
    normal = k.b.fcmp_ordered(">=", divisor, like(divisor, 2.0**-1022))
    shifted = float_from_bits(k, k.b.add(bits_of(k, divisor), k.b.sub(gap, like(gap, 1 << 52))))
    start = k.b.select(k.b.and_(wide, normal), shifted, divisor)
    return k.b.fsub(rest, repeat_while(k, [start], small, double)[0])


def _exponent(k: Kernel, x: ir.Value) -> ir.Value:
    """The exponent bits of an f64; the other bits are 0."""
    return k.b.and_(bits_of(k, x), like(bits_of(k, x), 0x7FF << 52))


def floor_mod(k: Kernel, x: ir.Value, y: ir.Value) -> ir.Value:
    """The remainder with the sign of y, as Python's %."""
    rest = fmod(k, x, y)
    zero = like(x, 0.0)
    differs = k.b.icmp_signed("<", k.b.xor(bits_of(k, rest), bits_of(k, y)), like(bits_of(k, x), 0))
    nonzero = k.b.fcmp_unordered("!=", rest, zero)
    moved = k.b.select(differs, k.b.fadd(rest, y), rest)
    return k.b.select(nonzero, moved, copysign(k, zero, y))
