"""The error function and its complement: f32 within 2 ulp, f64 within 4 ulp."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import (
    absolute,
    at_least,
    at_most,
    copysign,
    is_double,
    mad,
    narrow,
    polynomial,
    two_product,
    widen,
)
from treadle.codegen.emit.math_erf_table import erf_by_table, has_table
from treadle.codegen.emit.math_exp import exp_normal, exp_of_sum
from treadle.codegen.emit.vectors import like

_NEAR = (
    0.12837912142276764, -0.37612324953079224, 0.11280175298452377, -0.026711227372288704, 0.004917483776807785,
    -0.0005631216336041689,
)  # fmt: skip
"""f32: erf(x) / x - 1 in x**2 for |x| below `_BORDER`"""

_FAR = (
    0.3397769629955292, -0.33634665608406067, 0.08917916566133499, 0.01984362117946148, -0.013348225504159927,
    0.00015821066335774958, 0.0010460370685905218, -0.0001338847359875217, -2.220693750132341e-05,
)  # fmt: skip
"""f32: the fourth root of 1 - erf in x - `_ROOT_CENTRE`, from `_BORDER` to `_ONE_FROM`, where erf is 1. It is smoother
than erf: a polynomial of that has four coefficients more."""

_ROOT_CENTRE = 1.75

_CENTRE = 2.5
_ONE_FROM = 3.9375

_BORDER = 1.0

_NEAR_F64 = (
    0.12837916709551256, -0.3761263890318352, 0.11283791670944181, -0.02686617064311124, 0.005223977606117634,
    -0.0008548325929291552, 0.00012055293576421517, -1.4924712294643425e-05, 1.6447131492528985e-06,
    -1.6206313212427166e-07, 1.371097820580537e-08, -7.779464635620808e-10,
)  # fmt: skip
"""As `_NEAR`, for f64"""

_FAR_F64 = (
    7.806815272727265, 5.352680750986393, 0.9438937335241057, 0.010858072738345518, -0.0021654768988750577,
    0.0004209325634251084, -7.703080323941194e-05, 1.2755833806961432e-05, -1.768992381362696e-06,
    1.5597147647518317e-07, 1.2625600190086637e-08, -1.0924624905339e-08, 3.5013929873918664e-09,
    -8.514444464004731e-10, 1.6463756624460735e-10, -1.853078985102633e-11, 1.909643417441337e-12,
    -6.185877719076225e-13, -4.553896873298185e-13, 1.783994934795908e-13,
)  # fmt: skip
"""f64: -log(1 - erf(x)) in x - `_CENTRE`, from `_BORDER` to `_ONE_FROM_F64`"""

_ONE_FROM_F64 = 6.0

_SCALED = (
    1.2329951186255526, -0.13962111684056247, 0.015379652102619892, 0.06809705425468829, -0.1010390660363138,
    0.09373283499854068, -0.06633036581198141, 0.03716751553367958, -0.0161977340608787, 0.005031970019709128,
    -0.0007577732648851992, -0.00019925697236301043, 0.00015062156243952045, -2.4398031899728734e-05,
    -1.1221688311484425e-05, 5.706434971318556e-06, 2.93167777647217e-07, -8.194225857124827e-07,
    7.536472419436896e-08, 1.031876019129282e-07, -1.8382765116476455e-08, -9.628444412757383e-09,
    1.966056624090404e-09,
)  # fmt: skip
"""(1 + 2 * x) * e ** x**2 * erfc(x) in (x - 4) / (x + 4), for 0.5 <= x <= `_NOTHING_FROM`"""

_SPLIT = 0.5
"""Below it erfc is 1 - erf without loss."""

_NOTHING_FROM = 28.0
"""From here on erfc is less than the smallest denormal."""


def erf(k: Kernel, x: ir.Value) -> ir.Value:
    """2 / sqrt(pi) * the integral of e ** -t**2 from 0 to x"""
    if is_double(x):
        return _erf_f64(k, x)
    return erf_by_table(k, x) if has_table(k, x) else _erf_f32(k, x)


def _erf_f32(k: Kernel, x: ir.Value) -> ir.Value:
    size = at_most(k, absolute(k, x), _ONE_FROM)
    root = polynomial(k, k.b.fsub(size, like(x, _ROOT_CENTRE)), _FAR)
    square = k.b.fmul(root, root)
    return _near_or_far(k, x, size, _NEAR, mad(k, k.b.fneg(square), square, like(x, 1.0)))


def _erf_f64(k: Kernel, x: ir.Value) -> ir.Value:
    size = at_most(k, absolute(k, x), _ONE_FROM_F64)
    complement = exp_normal(k, k.b.fneg(polynomial(k, k.b.fsub(size, like(x, _CENTRE)), _FAR_F64)))
    return _near_or_far(k, x, size, _NEAR_F64, k.b.fsub(like(x, 1.0), complement))


def _near_or_far(k: Kernel, x: ir.Value, size: ir.Value, near: tuple[float, ...], far: ir.Value) -> ir.Value:
    """erf(x): x + x * the polynomial `near` in x**2 for |x| below `_BORDER`, else `far` with the sign of x."""
    close = mad(k, x, polynomial(k, k.b.fmul(x, x), near), x)
    return k.b.select(k.b.fcmp_ordered("<", size, like(x, _BORDER)), close, copysign(k, far, x))


def erfc(k: Kernel, x: ir.Value) -> ir.Value:
    """1 - erf(x) with all its digits where it is small, computed in f64: 2e-17 at 6, 0 only where that underflows."""
    if not is_double(x):
        return narrow(k, erfc(k, widen(k, x)))
    one = like(x, 1.0)
    near = k.b.fsub(k.b.fsub(one, x), k.b.fmul(x, polynomial(k, k.b.fmul(x, x), _NEAR_F64)))
    size = absolute(k, x)
    far = _complement(k, at_most(k, at_least(k, size, _SPLIT), _NOTHING_FROM))
    reflected = k.b.select(k.b.fcmp_ordered("<", x, like(x, 0.0)), k.b.fsub(like(x, 2.0), far), far)
    return k.b.select(k.b.fcmp_ordered("<", size, like(x, _SPLIT)), near, reflected)


def _complement(k: Kernel, x: ir.Value) -> ir.Value:
    """erfc(x) for 0.5 <= x <= 28"""
    four = like(x, 4.0)
    at = k.b.fdiv(k.b.fsub(x, four), k.b.fadd(x, four))
    scaled = k.b.fdiv(polynomial(k, at, _SCALED), k.b.fadd(k.b.fadd(x, x), like(x, 1.0)))
    square, rest = two_product(k, x, x)
    return k.b.fmul(scaled, exp_of_sum(k, k.b.fneg(square), k.b.fneg(rest)))
