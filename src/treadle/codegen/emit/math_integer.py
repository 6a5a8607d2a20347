"""Integer arithmetic that vector units lack: division, powers, shifts by any amount."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.lanes import any_lane, repeat_while
from treadle.codegen.emit.types import DOUBLE, element_of, lanes_of, with_element
from treadle.codegen.emit.vectors import like
from treadle.plan.status import DIVISION_BY_ZERO


def divide(k: Kernel, x: ir.Value, y: ir.Value, signed: bool, active: ir.Value | None) -> ir.Value:
    """x / y truncated toward zero; ends the kernel with DIVISION_BY_ZERO if an active lane of y is 0.

    The lowest number divided by -1 wraps around to itself.
    """
    zero, one = like(y, 0), like(y, 1)
    by_zero = k.b.icmp_unsigned("==", y, zero)
    k.fail_if(any_lane(k, by_zero if active is None else k.b.and_(by_zero, active)), DIVISION_BY_ZERO)
    if not signed:
        return _quotient(k, x, k.b.select(by_zero, one, y), signed)
    minus = k.b.icmp_signed("==", y, like(y, -1))
    safe = k.b.select(k.b.or_(by_zero, minus), one, y)
    return k.b.select(minus, k.b.sub(zero, x), _quotient(k, x, safe, signed))


def _quotient(k: Kernel, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    if lanes_of(x.type) == 1 or element_of(x.type).width == 64:
        return k.b.sdiv(x, y) if signed else k.b.udiv(x, y)
    wide = with_element(x.type, DOUBLE)
    if signed:
        return k.b.fptosi(k.b.fdiv(k.b.sitofp(x, wide), k.b.sitofp(y, wide)), x.type)
    return k.b.fptoui(k.b.fdiv(k.b.uitofp(x, wide), k.b.uitofp(y, wide)), x.type)


def remainder(k: Kernel, x: ir.Value, y: ir.Value, signed: bool, active: ir.Value | None) -> ir.Value:
    """x - y * (x / y), with the sign of x; fails as `divide` does."""
    return k.b.sub(x, k.b.mul(y, divide(k, x, y, signed, active)))


def floor_remainder(k: Kernel, x: ir.Value, y: ir.Value, signed: bool, active: ir.Value | None) -> ir.Value:
    """The remainder with the sign of y, as Python's %; fails as `divide` does."""
    rest = remainder(k, x, y, signed, active)
    if not signed:
        return rest
    zero = like(x, 0)
    differs = k.b.icmp_signed("<", k.b.xor(rest, y), zero)
    moved = k.b.select(differs, k.b.add(rest, y), rest)
    return k.b.select(k.b.icmp_signed("==", rest, zero), zero, moved)


def power(k: Kernel, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    """x ** y, wrapping around; for y < 0 the true power's whole part (0 for x = 0)."""
    zero, one = like(x, 0), like(x, 1)
    negative = k.b.icmp_signed("<", y, zero) if signed else k.b.icmp_unsigned("<", y, zero)

    def unfinished(values: list[ir.Value]) -> ir.Value:
        return k.b.icmp_unsigned("!=", values[2], zero)

    def turn(values: list[ir.Value]) -> list[ir.Value]:
        result, base, rest = values
        odd = k.b.icmp_unsigned("!=", k.b.and_(rest, one), zero)
        return [k.b.select(odd, k.b.mul(result, base), result), k.b.mul(base, base), k.b.lshr(rest, one)]

    result = repeat_while(k, [one, x, k.b.select(negative, zero, y)], unfinished, turn)[0]
    odd = k.b.icmp_unsigned("!=", k.b.and_(y, one), zero)
    of_minus_one = k.b.select(odd, like(x, -1), one)
    inverse = k.b.select(k.b.icmp_signed("==", x, one), one, zero)
    if signed:
        inverse = k.b.select(k.b.icmp_signed("==", x, like(x, -1)), of_minus_one, inverse)
    return k.b.select(negative, inverse, result)


def shift_left(k: Kernel, x: ir.Value, y: ir.Value) -> ir.Value:
    """x * 2**y, wrapping around; 0 where y is at least the width."""
    width = element_of(x.type).width
    inside = k.b.icmp_unsigned("<", y, like(y, width))
    return k.b.select(inside, k.b.shl(x, k.b.and_(y, like(y, width - 1))), like(x, 0))


def shift_right(k: Kernel, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    """x / 2**y rounded down; 0 (or -1 for negative x) where y is at least the width."""
    width = element_of(x.type).width
    inside = k.b.icmp_unsigned("<", y, like(y, width))
    if signed:
        return k.b.ashr(x, k.b.select(inside, y, like(y, width - 1)))
    return k.b.select(inside, k.b.lshr(x, k.b.and_(y, like(y, width - 1))), like(x, 0))
