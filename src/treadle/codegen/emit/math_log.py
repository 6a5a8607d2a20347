"""log, log1p and softplus. f32 and f64, within 2 ulp over the whole range."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import (
    absolute,
    copysign,
    float_from_bits,
    is_double,
    mad,
    mantissa_bits,
    polynomial,
    two_sum_any,
)
from treadle.codegen.emit.math_exp import exp
from treadle.codegen.emit.vectors import bits_of, like

_LN2_HIGH = {False: 0.693145751953125, True: 6.93147180369123816490e-01}
_LN2_LOW = {False: 1.4286068203094173e-06, True: 1.90821492927058770002e-10}
_TINY = {False: 2.0**-126, True: 2.0**-1022}

_LOG_F32 = (
    0.33333316445350647, -0.25000810623168945, 0.20002298057079315, -0.16624553501605988,
    0.1418103128671646, -0.13128650188446045, 0.12882374227046967, -0.07860520482063293,
)  # fmt: skip
"""(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f < sqrt(2)"""

_LOG_F64 = (
    0.6666666666666735, 0.3999999999940758, 0.28571428744081273, 0.22222198386078237, 0.18183574758133236,
    0.1531376570369766, 0.14798975548647914,
)  # fmt: skip
"""(log((1 + s) / (1 - s)) - 2 * s) / s**3 in z = s**2 for 0 <= z < 0.0295"""

_LOG1P = {
    False: (0.6666667461395264, 0.3999894857406616, 0.2861521244049072, 0.21443885564804077, 0.24245256185531616),
    True: (
        0.6666666666666666, 0.40000000000000224, 0.28571428571380864, 0.2222222222728774, 0.18181817867047204,
        0.15384627813072232, 0.13333007063444752, 0.11770524012233759, 0.10455740401205528, 0.1009392454652034,
        0.05798675537774625, 0.1605436563637096,
    ),
}  # fmt: skip
"""The same for 0 <= z <= 1/9, by whether it is for f64"""


def split_exponent(k: Kernel, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(m, e) with x == m * 2**e and sqrt(1/2) <= m < sqrt(2), e as a float; for finite x > 0."""
    double, width = is_double(x), mantissa_bits(x)
    denormal = k.b.fcmp_ordered("<", x, like(x, _TINY[double]))
    scaled = k.b.select(denormal, k.b.fmul(x, like(x, 2.0**width)), x)
    bits = bits_of(k, scaled)
    bias = 1023 if double else 127
    root = 0x3FE6A09E667F3BCD if double else 0x3F3504F3
    moved = k.b.add(bits, like(bits, (bias << width) - root))
    mantissa = k.b.add(k.b.and_(moved, like(bits, (1 << width) - 1)), like(bits, root))
    biased = float_from_bits(k, k.b.or_(k.b.lshr(moved, like(bits, width)), bits_of(k, like(x, 2.0**width))))
    offset = k.b.select(denormal, like(x, 2.0**width + bias + width), like(x, 2.0**width + bias))
    return float_from_bits(k, mantissa), k.b.fsub(biased, offset)


def log(k: Kernel, x: ir.Value) -> ir.Value:
    """The natural logarithm: -inf at 0, NaN below."""
    double = is_double(x)
    mantissa, e = split_exponent(k, x)
    f = k.b.fsub(mantissa, like(x, 1.0))
    half = k.b.fmul(k.b.fmul(f, f), like(x, 0.5))
    low = like(x, _LN2_LOW[double])
    if double:
        s = k.b.fdiv(f, k.b.fadd(f, like(x, 2.0)))
        z = k.b.fmul(s, s)
        curved = mad(k, s, mad(k, z, polynomial(k, z, _LOG_F64), half), k.b.fmul(e, low))
    else:
        cube = k.b.fmul(k.b.fmul(f, f), f)
        curved = mad(k, cube, polynomial(k, f, _LOG_F32), k.b.fmul(e, low))
    near = k.b.fsub(f, k.b.fsub(half, curved))
    return _with_edges(k, x, mad(k, e, like(x, _LN2_HIGH[double]), near))


def _with_edges(k: Kernel, x: ir.Value, result: ir.Value) -> ir.Value:
    result = k.b.select(k.b.fcmp_ordered("<", x, like(x, float("inf"))), result, x)
    zero = like(x, 0.0)
    result = k.b.select(k.b.fcmp_ordered("<", x, zero), like(x, float("nan")), result)
    return k.b.select(k.b.fcmp_ordered("==", x, zero), like(x, -float("inf")), result)


def log1p(k: Kernel, x: ir.Value) -> ir.Value:
    """log(1 + x): -inf at -1, NaN below. With 1 + x == u + rest it is log(u) + rest / u."""
    u, rest = two_sum_any(k, like(x, 1.0), x)
    rough = log(k, u)
    above = k.b.fcmp_ordered(">", x, like(x, -1.0))
    inside = k.b.and_(above, k.b.fcmp_ordered("<", x, like(x, float("inf"))))
    return copysign(k, k.b.select(inside, k.b.fadd(rough, k.b.fdiv(rest, u)), rough), x)


def _log1p_unit(k: Kernel, x: ir.Value) -> ir.Value:
    """log(1 + x) for 0 <= x <= 1"""
    s = k.b.fdiv(x, k.b.fadd(x, like(x, 2.0)))
    z = k.b.fmul(s, s)
    half = k.b.fmul(k.b.fmul(x, x), like(x, 0.5))
    inner = mad(k, z, polynomial(k, z, _LOG1P[is_double(x)]), half)
    return k.b.fsub(x, k.b.fsub(half, k.b.fmul(s, inner)))


def softplus(k: Kernel, x: ir.Value) -> ir.Value:
    """log(1 + e ** x)"""
    zero = like(x, 0.0)
    above = k.b.select(k.b.fcmp_ordered(">", x, zero), x, zero)
    return k.b.fadd(above, _log1p_unit(k, exp(k, k.b.fneg(absolute(k, x)))))
