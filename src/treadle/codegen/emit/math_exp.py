"""exp, and functions that are computed from it: expm1, sigmoid, tanh, sinh, cosh; within 2 ulp over the whole range."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import (
    absolute,
    at_least,
    at_most,
    copysign,
    float_from_bits,
    is_double,
    mad,
    magic,
    polynomial,
    power_of_two,
    round_small,
    scale,
    two_sum_any,
)
from treadle.codegen.emit.vectors import bits_of, like

LOG2E = 1.4426950408889634


class _Precision(NamedTuple):
    """ln 2 in two parts (a multiple of the first is exact), minimax polynomials, and the ends of the range.

    `tail` are the coefficients of (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2, `sinh` those of
    (sinh(x) - x) / x**3 in x**2 for |x| <= 1, `tanh` the same of tanh for |x| <= 0.625. Beyond
    `lowest` exp is 0, beyond `highest` infinite; from `flat` on tanh is 1, from `one_from` on sigmoid,
    below -`one_from` expm1 is -1, and at `infinite` it is infinite and needs no power of two beyond the range.
    """

    ln2_high: float
    ln2_low: float
    tail: tuple[float, ...]
    sinh: tuple[float, ...]
    tanh: tuple[float, ...]
    lowest: float
    highest: float
    flat: float
    one_from: float
    infinite: float


_F32 = _Precision(
    ln2_high=0.693145751953125,
    ln2_low=1.4286068203094173e-06,
    tail=(0.5, 0.16666516661643982, 0.041666436940431595, 0.008369138464331627, 0.0013937529874965549),
    sinh=(0.1666666716337204, 0.008333311416208744, 0.00019842635083477944, 2.783925083349459e-06),
    tanh=(
        -0.3333328366279602, 0.13331486284732819, -0.05374317243695259, 0.020649706944823265, -0.005716198123991489,
    ),
    lowest=-105.0,
    highest=90.0,
    flat=10.0,
    one_from=30.0,
    infinite=89.0,
)  # fmt: skip
_F64 = _Precision(
    ln2_high=6.93147180369123816490e-01,
    ln2_low=1.90821492927058770002e-10,
    tail=(
        0.5000000000000013, 0.16666666666666696, 0.041666666666511566, 0.00833333333330936, 0.0013888888948099531,
        0.00019841269913086157, 2.480148875085503e-05, 2.7557219867166857e-06, 2.763172777878237e-07,
        2.511680243720573e-08,
    ),
    sinh=(
        0.16666666666666666, 0.008333333333333333, 0.00019841269841269592, 2.7557319224120113e-06,
        2.505210834567173e-08, 1.605905070205394e-10, 7.646476606034439e-13, 2.848391987936267e-15,
    ),
    tanh=(
        -0.33333333333332876, 0.1333333333326488, -0.05396825393248546, 0.02186948760229192, -0.008863221325544693,
        0.003591991631440265, -0.001454970820994087, 0.00058635368382259, -0.00022863575739239442,
        7.722210403242478e-05, -1.610899410187115e-05,
    ),
    lowest=-747.0,
    highest=711.0,
    flat=22.0,
    one_from=50.0,
    infinite=710.0,
)  # fmt: skip

_EXP2 = (
    1.0, 0.6931470036506653, 0.24022246897220612, 0.0555071085691452, 0.009671291336417198, 0.0013269521296024323,
)  # fmt: skip
"""f32: 2 ** r for |r| <= 1 / 2, within 1e-7 of it"""

_BIAS = 127
"""Of the exponent of f32."""

_LOWEST_POWER = 0.25 - _BIAS
"""Rounds to -_BIAS, whose power of two has no bit set."""


def _precision(x: ir.Value) -> _Precision:
    return _F64 if is_double(x) else _F32


def exp(k: Kernel, x: ir.Value, *, halved: bool = False) -> ir.Value:
    """e ** x (times 0.5 if `halved`, which then overflows later). Denormal results are rounded correctly."""
    p = _precision(x)
    x = at_most(k, at_least(k, x, p.lowest), p.highest)
    n, count = round_small(k, x, LOG2E)
    mantissa = _exp_near_zero(k, x, n)
    if halved:
        n, count = k.b.fsub(n, like(n, 1.0)), k.b.sub(count, like(count, 1))
    return scale(k, mantissa, n, count)


def exp_normal(k: Kernel, x: ir.Value) -> ir.Value:
    """e ** x where neither the result nor 1 / result leaves the range of normal numbers: the cheaper exp."""
    n, count = round_small(k, x, LOG2E)
    return k.b.fmul(_exp_near_zero(k, x, n), power_of_two(k, count))


def exp_below_one(k: Kernel, x: ir.Value) -> ir.Value:
    """e ** x for x <= 0, 0 where that is less than about half of the smallest normal number: the exp of softmax.

    2 ** n is made of the low bits of the rounded x * log2(e) alone: their shift leaves n + bias in the exponent.
    """
    double = is_double(x)
    bias, bits = (1023, 52) if double else (127, 23)
    x = at_least(k, x, -(bias - 0.25) / LOG2E)
    start = like(x, magic(x) + bias)
    shifted = mad(k, x, like(x, LOG2E), start)
    pattern = bits_of(k, shifted)
    power = float_from_bits(k, k.b.shl(pattern, like(pattern, bits)))
    r = _remainder(k, x, k.b.fsub(shifted, start))
    curved = mad(k, k.b.fmul(r, r), polynomial(k, r, _precision(x).tail), r)
    return mad(k, curved, power, power)


def exp_weight(k: Kernel, x: ir.Value) -> ir.Value:
    """e ** x for x <= 0, within 2e-7 of it and |x| * 8e-8 of it more, 0 where `exp_below_one` is 0: the exp of weights
    beside one that is 1, whose small ones need not have all digits.

    2 ** (x * log2(e)), whose remainder is exact: `exp_below_one` subtracts multiples of ln(2) in two steps. f64 is not
    worth a polynomial of its own.
    """
    if is_double(x):
        return exp_below_one(k, x)
    x = at_least(k, k.b.fmul(x, like(x, LOG2E)), _LOWEST_POWER)
    shifted = k.b.fadd(x, like(x, magic(x) + _BIAS))
    pattern = bits_of(k, shifted)
    power = float_from_bits(k, k.b.shl(pattern, like(pattern, 23)))
    remainder = k.b.fsub(x, k.b.fsub(shifted, like(x, magic(x) + _BIAS)))
    return k.b.fmul(polynomial(k, remainder, _EXP2), power)


def _exp_near_zero(k: Kernel, x: ir.Value, n: ir.Value) -> ir.Value:
    """exp(x - n * ln 2)"""
    r = _remainder(k, x, n)
    curved = mad(k, k.b.fmul(r, r), polynomial(k, r, _precision(x).tail), r)
    return k.b.fadd(curved, like(x, 1.0))


def _remainder(k: Kernel, x: ir.Value, n: ir.Value) -> ir.Value:
    """x - n * ln 2"""
    p = _precision(x)
    return mad(k, n, like(x, -p.ln2_low), mad(k, n, like(x, -p.ln2_high), x))


def expm1(k: Kernel, x: ir.Value) -> ir.Value:
    """e ** x - 1, as 2 * (2 ** (n - 1) - 1/2 + 2 ** (n - 1) * (e ** r - 1)) with r = x - n * ln(2)"""
    p = _precision(x)
    bounded = at_most(k, at_least(k, x, -p.one_from), p.infinite)
    n, count = round_small(k, bounded, LOG2E)
    rough = mad(k, n, like(x, -p.ln2_high), bounded)
    small = k.b.fmul(n, like(x, p.ln2_low))
    r = k.b.fsub(rough, small)
    lost = k.b.fsub(k.b.fsub(rough, r), small)
    curved = mad(k, k.b.fmul(r, r), polynomial(k, r, p.tail), lost)
    half = power_of_two(k, k.b.sub(count, like(count, 1)))
    total, rest = two_sum_any(k, k.b.fsub(half, like(x, 0.5)), k.b.fmul(half, r))
    halved = k.b.fadd(total, mad(k, half, curved, rest))
    unscaled = k.b.fcmp_ordered("==", n, like(x, 0.0))
    return copysign(k, k.b.select(unscaled, k.b.fadd(r, curved), k.b.fadd(halved, halved)), x)


def exp_of_sum(k: Kernel, high: ir.Value, low: ir.Value) -> ir.Value:
    """e ** (high + low), |low| below an ulp of high"""
    p = _precision(high)
    high = at_most(k, at_least(k, high, p.lowest), p.highest)
    n, count = round_small(k, high, LOG2E)
    rough = mad(k, n, like(high, -p.ln2_high), high)
    small = k.b.fsub(low, k.b.fmul(n, like(high, p.ln2_low)))
    r = k.b.fadd(rough, small)
    lost = k.b.fadd(k.b.fsub(rough, r), small)
    curved = mad(k, k.b.fmul(r, r), polynomial(k, r, p.tail), lost)
    return scale(k, k.b.fadd(k.b.fadd(r, curved), like(high, 1.0)), n, count)


def sigmoid(k: Kernel, x: ir.Value) -> ir.Value:
    """1 / (1 + e ** -x), as 2 ** n / (2 ** n + e ** r) with r = n * ln(2) - x near 0"""
    p = _precision(x)
    x = at_most(k, at_least(k, x, p.lowest), p.one_from)
    n, count = round_small(k, x, LOG2E)
    r = _remainder(k, k.b.fneg(x), k.b.fneg(n))
    power = scale(k, like(x, 1.0), n, count)
    raised = k.b.fadd(power, like(x, 1.0))
    lost = k.b.fsub(power, k.b.fsub(raised, like(x, 1.0)))
    slope = polynomial(k, r, (1.0, *p.tail))
    return k.b.fdiv(power, mad(k, k.b.fadd(r, lost), slope, raised))


def tanh(k: Kernel, x: ir.Value) -> ir.Value:
    """(e ** 2x - 1) / (e ** 2x + 1)"""
    p = _precision(x)
    square = k.b.fmul(x, x)
    small = mad(k, k.b.fmul(square, x), polynomial(k, square, p.tanh), x)
    size = at_most(k, absolute(k, x), p.flat)
    e = exp_normal(k, k.b.fadd(size, size))
    large = k.b.fsub(like(x, 1.0), k.b.fdiv(like(x, 2.0), k.b.fadd(e, like(x, 1.0))))
    return copysign(k, k.b.select(k.b.fcmp_ordered("<", size, like(x, 0.625)), small, large), x)


def sinh(k: Kernel, x: ir.Value) -> ir.Value:
    """(e ** x - e ** -x) / 2"""
    size = absolute(k, x)
    square = k.b.fmul(x, x)
    small = mad(k, k.b.fmul(square, x), polynomial(k, square, _precision(x).sinh), x)
    half = exp(k, size, halved=True)
    large = copysign(k, k.b.fsub(half, k.b.fdiv(like(x, 0.25), half)), x)
    return k.b.select(k.b.fcmp_ordered("<", size, like(x, 1.0)), small, large)


def cosh(k: Kernel, x: ir.Value) -> ir.Value:
    """(e ** x + e ** -x) / 2"""
    half = exp(k, absolute(k, x), halved=True)
    return k.b.fadd(half, k.b.fdiv(like(x, 0.25), half))
