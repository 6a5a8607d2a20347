"""bf16 on its way in and out of registers: rounding, and products of pairs that are summed in f32."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import BFLOAT, FLOAT, I16, I32, lanes_of, with_element
from treadle.codegen.emit.vectors import bits_of, like

_QUIET = 1 << 6
"""The bit of a bf16 that makes a NaN quiet."""


def round_to_bfloat(k: Kernel, value: ir.Value) -> ir.Value:
    """f32 rounded to the nearest bf16, ties to even, as its bits (i16); NaN stays NaN.

    CPUs with an instruction for it make subnormal numbers 0.
    """
    type_ = with_element(value.type, I16)
    if k.target.has_bf16_products:
        return k.b.bitcast(k.b.fptrunc(value, with_element(value.type, BFLOAT)), type_)
    bits = bits_of(k, value)
    odd = k.b.and_(k.b.lshr(bits, like(bits, 16)), like(bits, 1))
    rounded = k.b.add(bits, k.b.add(odd, like(bits, 0x7FFF)))
    quiet = k.b.or_(bits, like(bits, _QUIET << 16))
    whole = k.b.select(k.b.fcmp_unordered("uno", value, value), quiet, rounded)
    return k.b.trunc(k.b.lshr(whole, like(bits, 16)), type_)


def widen_bfloat(k: Kernel, value: ir.Value) -> ir.Value:
    """The bits of bf16 as f32; exact."""
    wide = k.b.zext(value, with_element(value.type, I32))
    return k.b.bitcast(k.b.shl(wide, like(wide, 16)), with_element(value.type, FLOAT))


def add_pair_products(k: Kernel, left: ir.Value, right: ir.Value, addend: ir.Value) -> ir.Value:
    """addend + left.odd * right.odd + left.even * right.even, for f32 lanes that hold pairs of bf16.

    Products are exact, each of the two sums is rounded once; subnormal factors and results count as 0. For targets with
    the instruction only.
    """
    assert k.target.has_bf16_products, f"{k.target.cpu} cannot multiply bf16"
    lanes = lanes_of(addend.type)
    pairs = ir.VectorType(BFLOAT, 2 * lanes)
    bits = 32 * lanes
    function = k.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{bits}", addend.type, addend.type, pairs, pairs)
    return k.b.call(function, [addend, k.b.bitcast(left, pairs), k.b.bitcast(right, pairs)])


def add_products_of_pair_at(k: Kernel, pointer: ir.Value, offset: int, right: ir.Value, addend: ir.Value) -> ir.Value:
    """`add_pair_products` with the pair that lies `offset` bytes from `pointer` in every lane of the left factor.

    The multiplication itself reads memory, which LLVM would not let it: a broadcast of its own takes as long as
    half a multiplication. Nothing may write there while the kernel runs.
    """
    assert k.target.has_bf16_products, f"{k.target.cpu} cannot multiply bf16"
    type_ = addend.type
    text = f"vdpbf16ps {offset}($2){{1to{lanes_of(type_)}}}, $3, $0"
    function = ir.InlineAsm(ir.FunctionType(type_, [type_, pointer.type, type_]), text, "=v,0,r,v")
    return k.b.call(function, [addend, pointer, right])


def joined(k: Kernel, low: ir.Value, high: ir.Value) -> ir.Value:
    """Lanes of f32 that hold pairs of bf16, whose bits (i16) are `low` and `high`."""
    wide = [k.b.zext(half, with_element(half.type, I32)) for half in (low, high)]
    both = k.b.or_(wide[0], k.b.shl(wide[1], like(wide[1], 16)))
    return k.b.bitcast(both, with_element(low.type, FLOAT))


def pair_of(k: Kernel, low: ir.Value, high: ir.Value) -> ir.Value:
    """Lanes of f32 that hold pairs of bf16: `low` and `high`, two vectors of f32, rounded."""
    return joined(k, round_to_bfloat(k, low), round_to_bfloat(k, high))
