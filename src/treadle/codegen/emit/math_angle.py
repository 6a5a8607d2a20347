"""Taking whole quarter turns out of an angle, exactly enough for any f64.

Up to a few hundred thousand, multiples of pi / 2 in three parts are subtracted without rounding errors
that matter. Beyond, the few bits of 2 / pi that matter for the exponent at hand are multiplied with the
mantissa in wide integers (Payne and Hanek); that path is taken only if some lane needs it.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.lanes import repair_lanes
from treadle.codegen.emit.math_base import absolute, mad, round_small, two_product, two_sum, two_sum_any
from treadle.codegen.emit.types import I8, I32, I64
from treadle.codegen.emit.vectors import like

_PARTS = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624871116645580e-21)
"""pi / 2 in parts of 33 bits, whose multiples up to 2**20 are exact"""
_LAST = 8.47842766036889956997e-32
_TWO_OVER_PI = 0.6366197723675814
_FAR = 500_000.0

_I256 = ir.IntType(256)
_TABLE = "two_over_pi"
_TABLE_BITS = 1536
_EXTRA_BITS = 192
"""Zero bits above 2 / pi in the table, so that windows may begin before it"""


def quarter_turns(k: Kernel, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(n, r, e) with x == n * pi / 2 + r + e, |r| <= pi / 4 and |e| below half an ulp of r; n as i64 modulo 4.

    `x` is an f64 or a vector of them. r is NaN for infinities and NaN.
    """
    size = absolute(k, x)
    infinite = k.b.fcmp_ordered("==", size, like(x, float("inf")))
    far = k.b.and_(k.b.fcmp_ordered(">", size, like(x, _FAR)), k.b.not_(infinite))
    near = k.b.select(k.b.fcmp_ordered(">", size, like(x, _FAR)), like(x, 0.0), x)
    near = k.b.select(infinite, like(x, float("nan")), near)
    n, turns = round_small(k, near, _TWO_OVER_PI)
    a = mad(k, n, like(x, -_PARTS[0]), near)
    r, e = _subtract(k, a, k.b.fmul(n, like(x, _PARTS[1])))
    r, f = _subtract(k, r, k.b.fmul(n, like(x, _PARTS[2])))
    lost = mad(k, n, like(x, -_LAST), k.b.fadd(e, f))
    r, e = two_sum(k, r, lost)
    reducible = k.b.select(far, x, like(x, _FAR))
    merged = repair_lanes(k, far, [reducible], [turns, r, e], lambda lane: _reduce_far(k, lane[0]))
    return merged[0], merged[1], merged[2]


def _subtract(k: Kernel, a: ir.Value, c: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(d, e) with d + e == a - c exactly, for |a| >= |c|"""
    difference = k.b.fsub(a, c)
    return difference, k.b.fsub(k.b.fsub(a, difference), c)


def _reduce_far(k: Kernel, x: ir.Value) -> list[ir.Value]:
    """quarter_turns of one finite f64 not below _FAR"""
    b = k.b
    bits = b.bitcast(x, I64)
    exponent = b.sub(b.and_(b.lshr(bits, I64(52)), I64(0x7FF)), I64(1075))
    mantissa = b.or_(b.and_(bits, I64((1 << 52) - 1)), I64(1 << 52))
    place = b.add(exponent, I64(_EXTRA_BITS - 2))
    window = _window(k, place)
    product = b.mul(window, b.zext(mantissa, _I256))
    rounded = b.add(product, _I256(1 << 253))
    turns = b.trunc(b.lshr(rounded, _I256(254)), I64)
    fraction = b.shl(product, _I256(2))
    r, e = _as_two_floats(k, fraction)
    negative = b.icmp_signed("<", bits, I64(0))
    return [
        b.select(negative, b.sub(I64(0), turns), turns),
        b.select(negative, b.fneg(r), r),
        b.select(negative, b.fneg(e), e),
    ]


def _window(k: Kernel, place: ir.Value) -> ir.Value:
    """256 bits of the table, beginning at bit `start` from its top"""
    byte = k.b.lshr(place, I64(3))
    base = k.b.gep(_table(k), [I64(0), byte], inbounds=True, source_etype=_table(k).value_type)
    big = k.b.load(base, align=1, typ=_I256)
    swap = k.intrinsic("llvm.bswap.i256", _I256, _I256)
    ordered = k.b.call(swap, [big])
    after = k.b.zext(k.b.load(k.b.gep(base, [I64(32)], source_etype=I8), align=1, typ=I8), _I256)
    shift = k.b.zext(k.b.and_(place, I64(7)), _I256)
    return k.b.or_(k.b.shl(ordered, shift), k.b.lshr(after, k.b.sub(_I256(8), shift)))


def _table(k: Kernel) -> ir.GlobalVariable:
    found = k.module.globals.get(_TABLE)
    if found is None:
        data = bytearray(_two_over_pi().to_bytes((_EXTRA_BITS + _TABLE_BITS) // 8, "big"))
        type_ = ir.ArrayType(I8, len(data))
        found = ir.GlobalVariable(k.module, type_, _TABLE)
        found.linkage = "internal"
        found.global_constant = True
        found.initializer = ir.Constant(type_, data)
    return found


def _as_two_floats(k: Kernel, fraction: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`fraction` (a signed 256-bit number below 1/2 in size) times pi / 2, as a rounded sum and its error"""
    b = k.b
    pieces = []
    for number in range(6):
        piece = b.trunc(b.lshr(fraction, _I256(224 - 32 * number)), I32)
        whole = b.sitofp(piece, ir.DoubleType()) if number == 0 else b.uitofp(piece, ir.DoubleType())
        pieces.append(b.fmul(whole, like(whole, 2.0 ** -(32 * (number + 1)))))
    high, low = pieces[0], like(pieces[0], 0.0)
    for piece in pieces[1:]:
        total, lost = two_sum_any(k, high, piece)
        high, low = total, b.fadd(low, lost)
    high, low = two_sum(k, high, low)
    return _times_half_pi(k, high, low)


def _times_half_pi(k: Kernel, high: ir.Value, low: ir.Value) -> tuple[ir.Value, ir.Value]:
    half_pi, rest = like(high, 1.5707963267948966), like(high, 6.123233995736766e-17)
    product, error = two_product(k, high, half_pi)
    return two_sum(k, product, k.b.fadd(error, mad(k, high, rest, k.b.fmul(low, half_pi))))


@lru_cache(maxsize=1)
def _two_over_pi() -> int:
    """2 / pi in _TABLE_BITS bits after the point."""
    guard = 64
    one = 1 << (_TABLE_BITS + guard)
    pi = 4 * (4 * _arctan_of_inverse(5, one) - _arctan_of_inverse(239, one))
    return (2 * one * one // pi) >> guard


def _arctan_of_inverse(n: int, one: int) -> int:
    """one * atan(1 / n)"""
    power = one // n
    total, divisor, sign = power, 1, 1
    while power:
        power //= n * n
        divisor, sign = divisor + 2, -sign
        total += sign * (power // divisor)
    return total
