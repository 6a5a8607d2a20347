"""asin, acos, atan: computed in f64, so f32 results are rounded once; f64 within 2 ulp."""

from __future__ import annotations

from math import pi

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import absolute, copysign, is_double, narrow, polynomial, two_product, widen
from treadle.codegen.emit.vectors import like, unary_intrinsic

_ASIN = (
    0.16666666666665383, 0.07500000000342477, 0.04464285682397818, 0.030381959310930698, 0.022371754002913777,
    0.01735976397550445, 0.013884668189144942, 0.012172824691579182, 0.006512811271050501, 0.019568560146197213,
    -0.01628569294804316, 0.031953222463838686,
)  # fmt: skip
"""(asin(x) - x) / x**3 in x**2 for |x| <= 1/2"""

_ATAN = (
    -0.33333333333333187, 0.199999999999497, -0.1428571427978885, 0.1111111076233647, -0.09090897130782528,
    0.07692048743462988, -0.06662970303327184, 0.05846893571705714, -0.0503472377427094, 0.03794594747449805,
    -0.01777504814515383,
)  # fmt: skip
"""(atan(x) - x) / x**3 in x**2 for |x| <= tan(pi / 8)"""

_PI_LOW = 1.2246467991473532e-16
"""pi minus its nearest f64"""


def asin(k: Kernel, x: ir.Value) -> ir.Value:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN beyond 1."""
    if not is_double(x):
        return narrow(k, asin(k, widen(k, x)))
    size = absolute(k, x)
    inner = k.b.fcmp_ordered("<", size, like(x, 0.5))
    root, curve = _half_angle(k, size, inner)
    near = k.b.fadd(size, curve)
    quarter = like(x, pi / 4)
    correction = k.b.fadd(curve, _root_error(k, size, root))
    small = k.b.fsub(k.b.fadd(correction, correction), like(x, _PI_LOW / 2))
    far = k.b.fsub(quarter, k.b.fsub(small, k.b.fsub(quarter, k.b.fadd(root, root))))
    return copysign(k, k.b.select(inner, near, far), x)


def acos(k: Kernel, x: ir.Value) -> ir.Value:
    """The angle in [0, pi] whose cosine is x; NaN beyond 1."""
    if not is_double(x):
        return narrow(k, acos(k, widen(k, x)))
    size = absolute(k, x)
    inner = k.b.fcmp_ordered("<", size, like(x, 0.5))
    root, curve = _half_angle(k, size, inner)
    curve_signed = copysign(k, curve, x)
    near = k.b.fsub(like(x, pi / 2), k.b.fadd(x, k.b.fsub(curve_signed, like(x, _PI_LOW / 2))))
    twice = k.b.fmul(like(x, 2.0), k.b.fadd(root, curve))
    left = k.b.fsub(like(x, pi), k.b.fsub(twice, like(x, _PI_LOW)))
    far = k.b.select(k.b.fcmp_ordered("<", x, like(x, 0.0)), left, twice)
    return k.b.select(inner, near, far)


def _half_angle(k: Kernel, size: ir.Value, inner: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(s, c) with asin(s) == s + c, where s is `size` if `inner`, else sqrt((1 - size) / 2)."""
    half = k.b.fmul(k.b.fsub(like(size, 1.0), size), like(size, 0.5))
    square = k.b.select(inner, k.b.fmul(size, size), half)
    root = k.b.select(inner, size, unary_intrinsic(k, "sqrt", half))
    return root, k.b.fmul(k.b.fmul(square, root), polynomial(k, square, _ASIN))


def _root_error(k: Kernel, size: ir.Value, root: ir.Value) -> ir.Value:
    """sqrt((1 - size) / 2) - root, where `root` is that rounded"""
    half = k.b.fmul(k.b.fsub(like(size, 1.0), size), like(size, 0.5))
    product, error = two_product(k, root, root)
    rest = k.b.fsub(k.b.fsub(half, product), error)
    never_zero = k.b.fadd(k.b.fadd(root, root), like(root, 2.0**-1000))
    return k.b.fdiv(rest, never_zero)


def atan(k: Kernel, x: ir.Value) -> ir.Value:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    if not is_double(x):
        return narrow(k, atan(k, widen(k, x)))
    size = absolute(k, x)
    one, zero = like(x, 1.0), like(x, 0.0)
    middle = k.b.fcmp_ordered(">", size, like(x, 0.41421356237309503))
    beyond = k.b.fcmp_ordered(">", size, like(x, 2.414213562373095))
    top = k.b.select(beyond, like(x, -1.0), k.b.select(middle, k.b.fsub(size, one), size))
    bottom = k.b.select(beyond, size, k.b.select(middle, k.b.fadd(size, one), one))
    t = k.b.fdiv(top, bottom)
    square = k.b.fmul(t, t)
    curve = k.b.fmul(k.b.fmul(square, t), polynomial(k, square, _ATAN))
    low = k.b.select(beyond, like(x, _PI_LOW / 2), k.b.select(middle, like(x, _PI_LOW / 4), zero))
    high = k.b.select(beyond, like(x, pi / 2), k.b.select(middle, like(x, pi / 4), zero))
    return copysign(k, k.b.fadd(high, k.b.fadd(t, k.b.fadd(curve, low))), x)
