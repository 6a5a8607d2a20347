"""f16 in registers: rounding and widening, by instructions or by integer arithmetic."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import FLOAT, HALF, I16, I32, with_element
from treadle.codegen.emit.vectors import bits_of, like

_MAGNITUDE, _SIGN = 0x7FFF, 0x8000
_INFINITY = 0x7C00
_MANTISSA_BITS = 13
"""How many more bits the mantissa of f32 has."""

_EXPONENT_BIAS = 112
"""How much greater the bias of the exponent of f32 is."""

_INFINITY_OF_F32 = 0x7F800000
_OVERFLOW = 0x47800000
"""The bits of 2 ** 16."""

_SMALLEST_NORMAL = 0x38800000
"""The bits of 2 ** -14, below which numbers of f16 are subnormal."""

_HALF_BITS = 0x3F000000
"""The bits of 0.5. The last bit of its mantissa is as much as that of a subnormal f16."""


def widen_half(k: Kernel, value: ir.Value) -> ir.Value:
    """Returns the f32 whose f16 bits are `value`; exact."""
    type_ = with_element(value.type, FLOAT)
    if k.target.has_half_casts:
        return k.b.fpext(k.b.bitcast(value, with_element(value.type, HALF)), type_)
    wide = k.b.zext(value, with_element(value.type, I32))
    magnitude = k.b.and_(wide, like(wide, _MAGNITUDE))
    moved = k.b.shl(magnitude, like(wide, _MANTISSA_BITS))
    finite = bits_of(k, k.b.fmul(k.b.bitcast(moved, type_), like_number(type_, 2.0**_EXPONENT_BIAS)))
    beyond = k.b.or_(moved, like(wide, _INFINITY_OF_F32))
    is_finite = k.b.icmp_unsigned("<", magnitude, like(wide, _INFINITY))
    sign = k.b.shl(k.b.and_(wide, like(wide, _SIGN)), like(wide, 16))
    return k.b.bitcast(k.b.or_(k.b.select(is_finite, finite, beyond), sign), type_)


def round_to_half(k: Kernel, value: ir.Value) -> ir.Value:
    """Returns the bits (i16) of f32 rounded to the nearest f16, ties to even; NaN stays NaN."""
    type_ = with_element(value.type, I16)
    if k.target.has_half_casts:
        return k.b.bitcast(k.b.fptrunc(value, with_element(value.type, HALF)), type_)
    bits = bits_of(k, value)
    sign = k.b.and_(k.b.lshr(bits, like(bits, 16)), like(bits, _SIGN))
    magnitude = k.b.and_(bits, like(bits, 0x7FFFFFFF))
    odd = k.b.and_(k.b.lshr(magnitude, like(bits, _MANTISSA_BITS)), like(bits, 1))
    bias = (1 << (_MANTISSA_BITS - 1)) - 1 - (_EXPONENT_BIAS << 23)
    normal = k.b.lshr(k.b.add(k.b.add(magnitude, like(bits, bias)), odd), like(bits, _MANTISSA_BITS))
    sum_ = k.b.fadd(k.b.bitcast(magnitude, value.type), like_number(value.type, 0.5))
    subnormal = k.b.sub(bits_of(k, sum_), like(bits, _HALF_BITS))
    is_small = k.b.icmp_unsigned("<", magnitude, like(bits, _SMALLEST_NORMAL))
    is_nan = k.b.icmp_unsigned(">", magnitude, like(bits, _INFINITY_OF_F32))
    beyond = k.b.select(is_nan, like(bits, _INFINITY | 0x200), like(bits, _INFINITY))
    is_beyond = k.b.icmp_unsigned(">=", magnitude, like(bits, _OVERFLOW))
    found = k.b.select(is_beyond, beyond, k.b.select(is_small, subnormal, normal))
    return k.b.trunc(k.b.or_(found, sign), type_)


def like_number(type_: ir.Type, number: float) -> ir.Constant:
    """The constant `number` in every lane of `type_`."""
    return like(ir.Constant(type_, ir.Undefined), number)
