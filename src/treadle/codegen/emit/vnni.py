"""VNNI dot products: four neighbouring bytes along the summed axis, multiplied and added to a sum of 32 bits.

They are one instruction where the CPU has AVX512_VNNI or AVX_VNNI. Elsewhere they are three, if no two neighbouring
products exceed 16 bits; else bytes are widened, and pairs of 16-bit numbers are multiplied. The results are the same:
sums are exact modulo 2 ** 32 each way.
"""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.types import I8, I16, I32, lanes_of
from treadle.codegen.emit.vectors import like, opaque, splat
from treadle.dtypes import i32

_MADD = {64: "avx512.pmaddw.d.512", 32: "avx2.pmadd.wd", 16: "sse2.pmadd.wd"}
"""Bytes of a vector -> the instruction that multiplies 16-bit numbers and adds neighbouring products."""

_MADD_BYTES = {64: "avx512.pmaddubs.w.512", 32: "avx2.pmadd.ub.sw"}
"""The same for unsigned and signed bytes, whose products are added in 16 bits that saturate."""

_SIGN_BITS = -0x7F7F7F80


def load_vnni_left(k: Kernel, base: ir.Value, index: Index, lanes: int, *, signed: bool) -> ir.Value:
    """Returns the four bytes base[index] in every lane, as a left factor; 128 is added to `signed` bytes."""
    value = splat(k, k.b.load(k.at(base, index, i32), align=1, typ=I32), lanes)
    return k.b.xor(value, like(value, _SIGN_BITS)) if signed else value


def vnni_dot(k: Kernel, left: ir.Value, right: ir.Value, addend: ir.Value) -> ir.Value:
    """Returns addend + the products of the unsigned bytes of `left` and the signed bytes of `right`, lane by lane.

    Without VNNI, neighbouring products are added in 16 bits first, which have to hold their sums.
    """
    type_ = addend.type
    if not k.target.has_vnni:
        lanes = lanes_of(type_)
        narrow, halves = ir.VectorType(I8, 4 * lanes), ir.VectorType(I16, 2 * lanes)
        function = k.intrinsic(f"llvm.x86.{_MADD_BYTES[4 * lanes]}", halves, narrow, narrow)
        pairs = k.b.call(function, [k.b.bitcast(left, narrow), k.b.bitcast(right, narrow)])
        return dot_of_pairs(k, pairs, ir.Constant(halves, [1] * (2 * lanes)), addend)
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes_of(type_)}"
    return k.b.call(k.intrinsic(name, type_, type_, type_, type_), [addend, left, right])


def load_widened_pairs(k: Kernel, base: ir.Value, half: int, lanes: int) -> ir.Value:
    """Returns the first (`half` 0) or last two of four signed bytes of each lane at `base` as 16-bit numbers.

    They have the order of `split_pairs` in memory.
    """
    address = k.at(base, half * lanes // 2, i32)
    narrow = k.b.load(address, align=1, typ=ir.VectorType(I8, 2 * lanes))
    return k.b.bitcast(k.b.sext(narrow, ir.VectorType(I16, 2 * lanes)), ir.VectorType(I32, lanes))


def dot_of_pairs(k: Kernel, left: ir.Value, right: ir.Value, addend: ir.Value) -> ir.Value:
    """Returns addend + the two products of 16-bit numbers in each lane of 32 bits.

    LLVM may not add in another order: it would add products of different steps first, which need registers meanwhile.
    """
    total = k.b.add(addend, _dot_of_halves(k, left, right, addend.type))
    if not k.target.triple.startswith("x86_64"):
        return total
    return opaque(k, total)


def _dot_of_halves(k: Kernel, left: ir.Value, right: ir.Value, addend_type: ir.Type) -> ir.Value:
    """Returns the sum of the two products of 16-bit numbers in each lane of 32 bits."""
    lanes = lanes_of(addend_type)
    halves = ir.VectorType(I16, 2 * lanes)
    if k.target.triple.startswith("x86_64"):
        function = k.intrinsic(f"llvm.x86.{_MADD[4 * lanes]}", addend_type, halves, halves)
        return k.b.call(function, [k.b.bitcast(left, halves), k.b.bitcast(right, halves)])
    wide = k.b.bitcast(right, left.type)
    low = k.b.mul(k.b.and_(left, like(left, 0xFFFF)), k.b.ashr(k.b.shl(wide, like(wide, 16)), like(wide, 16)))
    return k.b.add(low, k.b.mul(k.b.lshr(left, like(left, 16)), k.b.ashr(wide, like(wide, 16))))
