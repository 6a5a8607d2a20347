"""sin, cos, tan: f32 computed in f64 and rounded once; f64 sin and cos within 2 ulp, tan within 4. Any argument."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_angle import quarter_turns
from treadle.codegen.emit.math_base import (
    float_from_bits,
    is_double,
    mad,
    narrow,
    polynomial,
    widen,
)
from treadle.codegen.emit.vectors import bits_of, like

_SIN = (
    -0.16666666666666632, 0.00833333333332221, -0.00019841269829640139, 2.755731363174131e-06,
    -2.5050748364396356e-08, 1.5896211541151928e-10,
)  # fmt: skip
"""(sin(r) - r) / r**3 in r**2 for |r| <= pi / 4"""

_COS = (
    0.041666666666666595, -0.001388888888887384, 2.480158728929759e-05, -2.75573142968351e-07,
    2.0875715454067307e-09, -1.135922966272112e-11,
)  # fmt: skip
"""(cos(r) - 1 + r**2 / 2) / r**4 in r**2 for |r| <= pi / 4"""

_SIN_SHORT = (-0.1666666664120174, 0.00833332933869092, -0.0001983931980831445, 2.7181681307353947e-06)
_COS_SHORT = (0.0416666467007031, -0.001388735833988092, 2.443730518038881e-05)
"""The same where the result is rounded to f32"""


def sin(k: Kernel, x: ir.Value) -> ir.Value:
    """The sine of x radians; NaN for infinities."""
    result = _sine(k, x, 0, exact=True) if is_double(x) else narrow(k, _sine(k, widen(k, x), 0, exact=False))
    return _keep_zero(k, x, result)


def cos(k: Kernel, x: ir.Value) -> ir.Value:
    """The cosine of x radians; NaN for infinities."""
    if is_double(x):
        return _sine(k, x, 1, exact=True)
    return narrow(k, _sine(k, widen(k, x), 1, exact=False))


def tan(k: Kernel, x: ir.Value) -> ir.Value:
    """The tangent of x radians; NaN for infinities."""
    result = _tangent(k, x, exact=True) if is_double(x) else narrow(k, _tangent(k, widen(k, x), exact=False))
    return _keep_zero(k, x, result)


def _keep_zero(k: Kernel, x: ir.Value, result: ir.Value) -> ir.Value:
    """x if it is 0 or -0, else `result`"""
    return k.b.select(k.b.fcmp_ordered("==", x, like(x, 0.0)), x, result)


def _sine(k: Kernel, x: ir.Value, quarter: int, *, exact: bool) -> ir.Value:
    """sin(x + quarter * pi / 2)"""
    turns, angle, rest = quarter_turns(k, x)
    turns = k.b.add(turns, like(turns, quarter))
    sine, cosine = _both(k, angle, rest, exact=exact)
    odd = k.b.icmp_unsigned("!=", k.b.and_(turns, like(turns, 1)), like(turns, 0))
    return _flip(k, k.b.select(odd, cosine, sine), turns)


def _tangent(k: Kernel, x: ir.Value, *, exact: bool) -> ir.Value:
    turns, angle, rest = quarter_turns(k, x)
    sine, cosine = _both(k, angle, rest, exact=exact)
    odd = k.b.icmp_unsigned("!=", k.b.and_(turns, like(turns, 1)), like(turns, 0))
    top = k.b.select(odd, k.b.fneg(cosine), sine)
    return k.b.fdiv(top, k.b.select(odd, sine, cosine))


def _flip(k: Kernel, x: ir.Value, turns: ir.Value) -> ir.Value:
    """-x where the second bit of `turns` is set, else x"""
    sign = k.b.shl(k.b.lshr(turns, like(turns, 1)), like(turns, 63))
    return float_from_bits(k, k.b.xor(bits_of(k, x), sign))


def _both(k: Kernel, r: ir.Value, rest: ir.Value, *, exact: bool) -> tuple[ir.Value, ir.Value]:
    """(sin, cos) of r + rest, |r| <= pi / 4, |rest| below half an ulp of r"""
    square = k.b.fmul(r, r)
    half = k.b.fmul(square, like(r, 0.5))
    cube = k.b.fmul(square, r)
    fourth = k.b.fmul(square, square)
    one = like(r, 1.0)
    if not exact:
        sine = mad(k, cube, polynomial(k, square, _SIN_SHORT), r)
        return sine, mad(k, fourth, polynomial(k, square, _COS_SHORT), k.b.fsub(one, half))
    small = mad(k, k.b.fneg(half), rest, rest)
    sine = k.b.fadd(r, mad(k, cube, polynomial(k, square, _SIN), small))
    rough = k.b.fsub(one, half)
    lost = k.b.fsub(k.b.fsub(one, rough), half)
    curved = mad(k, fourth, polynomial(k, square, _COS), k.b.fsub(lost, k.b.fmul(r, rest)))
    return sine, k.b.fadd(rough, curved)
