"""pow: f32 computed in f64 and rounded once, f64 within 2 ulp, with the special cases of IEEE 754."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import (
    absolute,
    is_double,
    mad,
    narrow,
    polynomial,
    two_product,
    two_sum,
    widen,
)
from treadle.codegen.emit.math_exp import exp, exp_of_sum
from treadle.codegen.emit.math_log import log, split_exponent
from treadle.codegen.emit.math_round import truncate
from treadle.codegen.emit.types import I64, with_element
from treadle.codegen.emit.vectors import like, unary_intrinsic

_LN2 = (0.6931471805598903, 5.497923018708371e-14)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_TAIL = (
    0.40000000000000613, 0.2857142857090223, 0.22222222375819703, 0.1818179694862295, 0.15386182160043993,
    0.13270059973990436, 0.13075125385887953,
)  # fmt: skip
"""(log((1 + s) / (1 - s)) - 2 * s - 2/3 * s**3) / s**5 in s**2, for sqrt(1/2) <= (1 + s) / (1 - s) < sqrt(2)"""


def power(k: Kernel, x: ir.Value, y: ir.Value) -> ir.Value:
    """x ** y; NaN for finite x < 0 unless y is whole; 1 for y == 0 and for x == 1, whatever the other."""
    simple = _SIMPLE.get(_constant_value(y))
    if simple is not None:
        return simple(k, x)
    if not is_double(x):
        wide_x, wide_y = widen(k, x), widen(k, y)
        size = exp(k, k.b.fmul(wide_y, log(k, absolute(k, wide_x))))
        return narrow(k, _with_edges(k, wide_x, wide_y, size))
    return _with_edges(k, x, y, _power_of_size(k, absolute(k, x), y))


def _with_edges(k: Kernel, x: ir.Value, y: ir.Value, size: ir.Value) -> ir.Value:
    """x ** y from `size` == |x| ** y"""
    zero, one, infinity = like(x, 0.0), like(x, 1.0), like(x, float("inf"))
    half = k.b.fmul(y, like(y, 0.5))
    whole = k.b.fcmp_ordered("==", truncate(k, y), y)
    odd = k.b.and_(whole, k.b.fcmp_unordered("!=", truncate(k, half), half))
    negative = _is_negative(k, x)
    size = k.b.select(k.b.and_(negative, odd), k.b.fneg(size), size)
    finite = k.b.and_(k.b.fcmp_ordered("<", x, zero), k.b.fcmp_ordered(">", x, k.b.fneg(infinity)))
    undefined = k.b.and_(finite, k.b.fcmp_unordered("!=", truncate(k, y), y))
    size = k.b.select(undefined, like(x, float("nan")), size)
    endless = k.b.fcmp_ordered("==", absolute(k, y), infinity)
    minus_one = k.b.and_(k.b.fcmp_ordered("==", x, like(x, -1.0)), endless)
    certain = k.b.or_(k.b.fcmp_ordered("==", x, one), k.b.fcmp_ordered("==", y, zero))
    return k.b.select(k.b.or_(certain, minus_one), one, size)


def _is_negative(k: Kernel, x: ir.Value) -> ir.Value:
    """Whether x, an f64, has its sign bit set: true of -0."""
    bits = k.b.bitcast(x, with_element(x.type, I64))
    return k.b.icmp_signed("<", bits, like(bits, 0))


def _power_of_size(k: Kernel, x: ir.Value, y: ir.Value) -> ir.Value:
    """x ** y for f64 x >= 0"""
    high, low = _log_in_two(k, x)
    product, error = two_product(k, y, high)
    rest = mad(k, y, low, error)
    usual = k.b.fcmp_ordered("<", absolute(k, product), like(x, 750.0))
    return exp_of_sum(k, product, k.b.select(usual, rest, like(x, 0.0)))


def _log_in_two(k: Kernel, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """log(x), x >= 0, as an f64 and its error: about 64 bits"""
    b = k.b
    mantissa, e = split_exponent(k, x)
    f, g = b.fsub(mantissa, like(x, 1.0)), b.fadd(mantissa, like(x, 1.0))
    g_lost = b.fsub(mantissa, b.fsub(g, like(x, 1.0)))
    s = b.fdiv(f, g)
    product, error = two_product(k, s, g)
    s_low = b.fdiv(b.fsub(b.fsub(b.fsub(f, product), error), b.fmul(s, g_lost)), g)
    z, z_low = two_product(k, s, s)
    z_low = mad(k, b.fadd(s, s), s_low, z_low)
    inner, inner_low = two_sum(k, like(x, _TWO_THIRDS[0]), b.fmul(z, polynomial(k, z, _TAIL)))
    inner_low = b.fadd(inner_low, like(x, _TWO_THIRDS[1]))
    cube, cube_low = _times(k, (s, s_low), (z, z_low))
    curve, curve_low = _times(k, (cube, cube_low), (inner, inner_low))
    high, low = two_sum(k, b.fadd(s, s), curve)
    low = b.fadd(low, b.fadd(curve_low, b.fadd(s_low, s_low)))
    base = b.fmul(e, like(x, _LN2[0]))
    total, lost = two_sum(k, base, high)
    low = b.fadd(lost, mad(k, e, like(x, _LN2[1]), low))
    high, low = two_sum(k, total, low)
    infinity = like(x, float("inf"))
    ordinary = b.and_(b.fcmp_ordered(">", x, like(x, 0.0)), b.fcmp_ordered("<", x, infinity))
    edge = b.select(b.fcmp_ordered("==", x, like(x, 0.0)), b.fneg(infinity), x)
    return b.select(ordinary, high, edge), b.select(ordinary, low, like(x, 0.0))


def _times(k: Kernel, a: tuple[ir.Value, ir.Value], c: tuple[ir.Value, ir.Value]) -> tuple[ir.Value, ir.Value]:
    """The product of two numbers, each an f64 and its error"""
    product, error = two_product(k, a[0], c[0])
    return product, k.b.fadd(error, mad(k, a[0], c[1], k.b.fmul(a[1], c[0])))


def _constant_value(y: ir.Value) -> float | None:
    """The number that `y` is in every lane, if it is a constant."""
    if not isinstance(y, ir.Constant):
        return None
    if not isinstance(y.type, ir.VectorType):
        return float(y.constant)
    numbers = {float(getattr(lane, "constant", lane)) for lane in y.constant}
    return numbers.pop() if len(numbers) == 1 else None


def _square(k: Kernel, x: ir.Value) -> ir.Value:
    return k.b.fmul(x, x)


def _cube(k: Kernel, x: ir.Value) -> ir.Value:
    return k.b.fmul(k.b.fmul(x, x), x)


def _root(k: Kernel, x: ir.Value) -> ir.Value:
    infinity = like(x, float("inf"))
    root = unary_intrinsic(k, "sqrt", k.b.fadd(x, like(x, 0.0)))
    return k.b.select(k.b.fcmp_ordered("==", x, k.b.fneg(infinity)), infinity, root)


def _inverse(k: Kernel, x: ir.Value) -> ir.Value:
    return k.b.fdiv(like(x, 1.0), x)


def _same(_k: Kernel, x: ir.Value) -> ir.Value:
    return x


_SIMPLE: dict[float | None, Callable[[Kernel, ir.Value], ir.Value]] = {
    1.0: _same,
    2.0: _square,
    3.0: _cube,
    0.5: _root,
    -1.0: _inverse,
}
