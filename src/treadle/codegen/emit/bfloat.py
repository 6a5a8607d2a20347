"""bf16 in registers: rounding, widening, and bf16 dot products."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import BFLOAT, FLOAT, I16, I32, lanes_of, with_element
from treadle.codegen.emit.vectors import bits_of, like

_QUIET = 1 << 6
"""The bit of a bf16 that makes a NaN quiet."""


def round_to_bfloat(k: Kernel, value: ir.Value) -> ir.Value:
    """Returns the bits (i16) of f32 rounded to the nearest bf16, ties to even; NaN stays NaN.

    The instruction of AVX512_BF16 makes subnormal numbers 0.
    """
    type_ = with_element(value.type, I16)
    if k.target.has_bf16_dot:
        return k.b.bitcast(k.b.fptrunc(value, with_element(value.type, BFLOAT)), type_)
    bits = bits_of(k, value)
    odd = k.b.and_(k.b.lshr(bits, like(bits, 16)), like(bits, 1))
    rounded = k.b.add(bits, k.b.add(odd, like(bits, 0x7FFF)))
    quiet = k.b.or_(bits, like(bits, _QUIET << 16))
    whole = k.b.select(k.b.fcmp_unordered("uno", value, value), quiet, rounded)
    return k.b.trunc(k.b.lshr(whole, like(bits, 16)), type_)


def widen_bfloat(k: Kernel, value: ir.Value) -> ir.Value:
    """Returns the f32 whose bf16 bits are `value`; exact."""
    wide = k.b.zext(value, with_element(value.type, I32))
    return k.b.bitcast(k.b.shl(wide, like(wide, 16)), with_element(value.type, FLOAT))


def bf16_dot(k: Kernel, left: ir.Value, right: ir.Value, addend: ir.Value) -> ir.Value:
    """Returns addend + left.odd * right.odd + left.even * right.even; f32 lanes of the factors hold two bf16 each.

    Products are exact, each of the two sums is rounded once, and subnormal factors and results count as 0. The target
    must have the instruction.
    """
    assert k.target.has_bf16_dot, f"{k.target.cpu} cannot multiply bf16"
    lanes = lanes_of(addend.type)
    halves = ir.VectorType(BFLOAT, 2 * lanes)
    bits = 32 * lanes
    function = k.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{bits}", addend.type, addend.type, halves, halves)
    return k.b.call(function, [addend, k.b.bitcast(left, halves), k.b.bitcast(right, halves)])


def bf16_dot_at(k: Kernel, pointer: ir.Value, offset: int, right: ir.Value, addend: ir.Value) -> ir.Value:
    """`bf16_dot` whose left factor has the two bf16 at `pointer` + `offset` bytes in every lane.

    The instruction reads them from memory itself. LLVM would emit a broadcast, which takes as long as half a dot
    product. Nothing may write there while the kernel runs.
    """
    assert k.target.has_bf16_dot, f"{k.target.cpu} cannot multiply bf16"
    type_ = addend.type
    text = f"vdpbf16ps {offset}($2){{1to{lanes_of(type_)}}}, $3, $0"
    function = ir.InlineAsm(ir.FunctionType(type_, [type_, pointer.type, type_]), text, "=v,0,r,v")
    return k.b.call(function, [addend, pointer, right])


def join_bf16(k: Kernel, low: ir.Value, high: ir.Value) -> ir.Value:
    """Returns lanes of f32 that hold two bf16 each, of which `low` and `high` are the bits (i16)."""
    wide = [k.b.zext(half, with_element(half.type, I32)) for half in (low, high)]
    both = k.b.or_(wide[0], k.b.shl(wide[1], like(wide[1], 16)))
    return k.b.bitcast(both, with_element(low.type, FLOAT))


def round_and_join(k: Kernel, low: ir.Value, high: ir.Value) -> ir.Value:
    """Returns lanes of f32 that hold two bf16 each: the vectors `low` and `high` of f32, rounded."""
    return join_bf16(k, round_to_bfloat(k, low), round_to_bfloat(k, high))
