"""asinh, acosh, atanh: computed in f64, so f32 results are rounded once; f64 within 4 ulp."""

from __future__ import annotations

from math import log

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import absolute, copysign, is_double, narrow, widen
from treadle.codegen.emit.math_log import log1p
from treadle.codegen.emit.vectors import like, unary_intrinsic

_HUGE = 2.0**60
"""From here on log(x + sqrt(x**2 + 1)), log(x + sqrt(x**2 - 1)) and log(2 * (1 + x)) do not differ."""


def asinh(k: Kernel, x: ir.Value) -> ir.Value:
    """log(x + sqrt(x ** 2 + 1)), as log1p(x + x ** 2 / (1 + sqrt(x ** 2 + 1))) for x >= 0"""
    if not is_double(x):
        return narrow(k, asinh(k, widen(k, x)))
    size, one = absolute(k, x), like(x, 1.0)
    square = k.b.fmul(size, size)
    root = unary_intrinsic(k, "sqrt", k.b.fadd(square, one))
    beyond = k.b.fadd(size, k.b.fdiv(square, k.b.fadd(root, one)))
    return copysign(k, _log1p_or_doubled(k, size, beyond), x)


def acosh(k: Kernel, x: ir.Value) -> ir.Value:
    """log(x + sqrt(x ** 2 - 1)), as log1p(t + sqrt(t) * sqrt(t + 2)) with t = x - 1; NaN below 1."""
    if not is_double(x):
        return narrow(k, acosh(k, widen(k, x)))
    t = k.b.fsub(x, like(x, 1.0))
    roots = (unary_intrinsic(k, "sqrt", each) for each in (t, k.b.fadd(t, like(x, 2.0))))
    return _log1p_or_doubled(k, x, k.b.fadd(t, k.b.fmul(*roots)))


def atanh(k: Kernel, x: ir.Value) -> ir.Value:
    """log((1 + x) / (1 - x)) / 2, as log1p(2 * x / (1 - x)) / 2 for x >= 0; infinite at 1 and -1, NaN beyond."""
    if not is_double(x):
        return narrow(k, atanh(k, widen(k, x)))
    size = absolute(k, x)
    ratio = k.b.fdiv(k.b.fadd(size, size), k.b.fsub(like(x, 1.0), size))
    return copysign(k, k.b.fmul(log1p(k, ratio), like(x, 0.5)), x)


def _log1p_or_doubled(k: Kernel, x: ir.Value, beyond: ir.Value) -> ir.Value:
    """log(1 + beyond), or log(2 * x) where x is so large that `beyond` may have overflowed"""
    huge = k.b.fcmp_ordered(">", x, like(x, _HUGE))
    found = log1p(k, k.b.select(huge, x, beyond))
    return k.b.fadd(found, k.b.select(huge, like(x, log(2)), like(x, 0.0)))
