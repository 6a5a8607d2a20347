"""The parts of elementary functions: polynomials, scaling by powers of two, error-free sums and products."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.memory import stored_constants
from treadle.codegen.emit.types import DOUBLE, FLOAT, I32, element_of, lanes_of, with_element
from treadle.codegen.emit.vectors import binary_intrinsic, bits_of, like, mangled, take, unary_intrinsic


def is_double(value: ir.Value) -> bool:
    """Whether `value` is an f64 or a vector of them (else f32)."""
    return bool(element_of(value.type) == DOUBLE)


def has_fma(k: Kernel) -> bool:
    """Whether the target multiplies and adds in one instruction."""
    return k.target.isa != "generic" or not k.target.triple.startswith("x86_64")


def mad(k: Kernel, a: ir.Value, c: ir.Value, addend: ir.Value) -> ir.Value:
    """a * c + addend, rounded once where the target can, else twice."""
    function = k.intrinsic(f"llvm.fmuladd.{mangled(a.type)}", a.type, a.type, a.type, a.type)
    return k.b.call(function, [a, c, addend])


def polynomial(k: Kernel, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """coefficients[0] + coefficients[1] * x + ...; long ones in two chains, which are computed at the same time."""
    if k.target.isa == "avx2" and lanes_of(x.type) > 1:
        factors = stored_constants(k, x, coefficients)
    else:
        factors = [like(x, coefficient) for coefficient in coefficients]
    if len(factors) < 8:
        return _horner(k, x, factors)
    square = k.b.fmul(x, x)
    return mad(k, _horner(k, square, factors[1::2]), x, _horner(k, square, factors[::2]))


def _horner(k: Kernel, x: ir.Value, factors: Sequence[ir.Value]) -> ir.Value:
    value = factors[-1]
    for factor in reversed(factors[:-1]):
        value = mad(k, value, x, factor)
    return value


def absolute(k: Kernel, x: ir.Value) -> ir.Value:
    """|x| of a float."""
    return unary_intrinsic(k, "fabs", x)


def copysign(k: Kernel, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
    """|magnitude| with the sign of `sign`."""
    return binary_intrinsic(k, "copysign", magnitude, sign)


def at_most(k: Kernel, x: ir.Value, bound: float) -> ir.Value:
    """x > bound ? bound : x; NaN stays."""
    limit = like(x, bound)
    return k.b.select(k.b.fcmp_ordered("<", limit, x), limit, x)


def at_least(k: Kernel, x: ir.Value, bound: float) -> ir.Value:
    """x < bound ? bound : x; NaN stays."""
    limit = like(x, bound)
    return k.b.select(k.b.fcmp_ordered(">", limit, x), limit, x)


def mantissa_bits(x: ir.Value) -> int:
    """52 for f64, 23 for f32."""
    return 52 if is_double(x) else 23


def magic(x: ir.Value) -> float:
    """The number that, added to a small one of x's type, rounds it to a whole number in the low bits."""
    return 1.5 * 2.0 ** mantissa_bits(x)


def float_from_bits(k: Kernel, bits: ir.Value) -> ir.Value:
    """The float with the pattern `bits` (i32 gives f32, i64 gives f64)."""
    double = element_of(bits.type).width == 64
    return k.b.bitcast(bits, with_element(bits.type, DOUBLE if double else FLOAT))


def round_small(k: Kernel, x: ir.Value, factor: float) -> tuple[ir.Value, ir.Value]:
    """(x * factor rounded to a whole number, the same as an integer), where |x * factor| < 2**21."""
    shifted = mad(k, x, like(x, factor), like(x, magic(x)))
    return k.b.fsub(shifted, like(x, magic(x))), k.b.sub(bits_of(k, shifted), bits_of(k, like(x, magic(x))))


def power_of_two(k: Kernel, n: ir.Value) -> ir.Value:
    """2.0 ** n for integers `n` (i32 gives f32, i64 gives f64) within the range of normal exponents."""
    double = element_of(n.type).width == 64
    biased = k.b.add(n, like(n, 1023 if double else 127))
    return float_from_bits(k, k.b.shl(biased, like(n, 52 if double else 23)))


def scale(k: Kernel, x: ir.Value, whole: ir.Value, n: ir.Value) -> ir.Value:
    """x * 2**n rounded once, for 0.5 < |x| < 2 and any n with |n| < 2200 (f64) or 300 (f32); `whole` is float(n)."""
    if k.target.isa == "avx512" and _register_count(x):
        return _scalef(k, x, whole)
    half = k.b.ashr(n, like(n, 1))
    return k.b.fmul(k.b.fmul(x, power_of_two(k, half)), power_of_two(k, k.b.sub(n, half)))


def _register_count(x: ir.Value) -> int:
    bits = lanes_of(x.type) * (64 if is_double(x) else 32)
    return bits // 512 if bits % 512 == 0 and bits <= 1024 else 0


def _scalef(k: Kernel, x: ir.Value, whole: ir.Value) -> ir.Value:
    lanes = lanes_of(x.type)
    if _register_count(x) == 2:
        halves = [range(lanes // 2), range(lanes // 2, lanes)]
        low, high = (_scalef(k, take(k, x, half), take(k, whole, half)) for half in halves)
        return k.b.shuffle_vector(low, high, ir.Constant(ir.VectorType(I32, lanes), list(range(lanes))))
    mask = ir.IntType(lanes)
    name = f"llvm.x86.avx512.mask.scalef.{'pd' if is_double(x) else 'ps'}.512"
    function = k.intrinsic(name, x.type, x.type, x.type, x.type, mask, I32)
    current_rounding = I32(4)
    return k.b.call(function, [x, whole, x, mask(-1), current_rounding])


def two_sum(k: Kernel, large: ir.Value, small: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(s, e): s + e == large + small exactly, s rounded; needs |large| >= |small| or large == 0."""
    total = k.b.fadd(large, small)
    return total, k.b.fadd(k.b.fsub(large, total), small)


def two_sum_any(k: Kernel, a: ir.Value, c: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(s, e): s + e == a + c exactly, s rounded."""
    total = k.b.fadd(a, c)
    shadow = k.b.fsub(total, a)
    return total, k.b.fadd(k.b.fsub(a, k.b.fsub(total, shadow)), k.b.fsub(c, shadow))


def two_product(k: Kernel, a: ir.Value, c: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(p, e): p + e == a * c exactly, p rounded (barring overflow)."""
    product = k.b.fmul(a, c)
    if has_fma(k):
        return product, mad(k, a, c, k.b.fneg(product))
    a_high, a_low = _split(k, a)
    c_high, c_low = _split(k, c)
    error = k.b.fsub(k.b.fmul(a_high, c_high), product)
    error = k.b.fadd(error, k.b.fmul(a_high, c_low))
    error = k.b.fadd(error, k.b.fmul(a_low, c_high))
    return product, k.b.fadd(error, k.b.fmul(a_low, c_low))


def _split(k: Kernel, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    keep = -(1 << (27 if is_double(x) else 12))
    high = float_from_bits(k, k.b.and_(bits_of(k, x), like(bits_of(k, x), keep)))
    return high, k.b.fsub(x, high)


def widen(k: Kernel, x: ir.Value) -> ir.Value:
    """f32 as f64."""
    return k.b.fpext(x, with_element(x.type, DOUBLE))


def narrow(k: Kernel, x: ir.Value) -> ir.Value:
    """f64 rounded to f32."""
    return k.b.fptrunc(x, with_element(x.type, FLOAT))
