"""Loads and stores of scalars and vectors. Nothing is assumed aligned beyond one element."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.types import I1, I8, I32, I64, POINTER, element_of, scalar, vector, with_element
from treadle.codegen.emit.vectors import lane_numbers, like, mangled, splat
from treadle.dtypes import DType, boolean, i32


def load(k: Kernel, base: ir.Value, index: Index, dtype: DType, lanes: int = 1) -> ir.Value:
    """base[index : index + lanes]"""
    return k.b.load(k.at(base, index, dtype), align=dtype.size, typ=vector(dtype, lanes))


def store(k: Kernel, value: ir.Value, base: ir.Value, index: Index, dtype: DType) -> None:
    """base[index : index + lanes of value] = value"""
    k.b.store(value, k.at(base, index, dtype), align=dtype.size)


def prefetch(k: Kernel, base: ir.Value, bytes_: Index, *, near: bool = False, stored: bool = False) -> None:
    """Prefetches the cache line `bytes_` behind `base` into L2, or if `near` into L1. The address need not be valid.

    `stored`: for a store, which needs the line for itself.
    """
    function = k.intrinsic("llvm.prefetch.p0", ir.VoidType(), POINTER, I32, I32, I32)
    place = k.b.gep(base, [as_i64(bytes_)], source_etype=I8)
    k.b.call(function, [place, I32(int(stored)), I32(3 if near else 2), I32(1)])


def lane_mask(k: Kernel, count: Index, lanes: int) -> ir.Value:
    """A vector of `lanes` i1: lane i is i < count."""
    iota = lane_numbers(tuple(range(lanes)))
    bound = splat(k, k.b.trunc(as_i64(count), I32), lanes)
    return k.b.icmp_signed("<", iota, bound)


def loaded_lane_mask(k: Kernel, count: Index, lanes: int) -> ir.Value:
    """`lane_mask` out of a table in memory.

    For kernels whose loops need all registers: LLVM computes `lane_mask` with a constant that it loads before the
    outermost loop and keeps in a register.
    """
    name = f"lane_masks{lanes}"
    table = k.module.globals.get(name)
    if table is None:
        type_ = ir.ArrayType(I32, 2 * lanes)
        table = ir.GlobalVariable(k.module, type_, name)
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(type_, [-1] * lanes + [0] * lanes)
    skipped = k.sub(lanes, k.min(count, lanes))
    words = k.b.load(k.at(table, skipped, i32), align=i32.size, typ=vector(i32, lanes))
    return k.b.icmp_signed("<", words, ir.Constant(words.type, None))


def stored_constants(k: Kernel, x: ir.Value, numbers: Sequence[float]) -> list[ir.Value]:
    """Constants with the type of `x`, a vector, which instructions read from memory as their operands.

    For AVX2, which does not spread an operand over the lanes. Of constants that LLVM knows to have equal lanes it
    stores one lane, spreads it by an instruction of its own for each use, and fills registers.
    """
    name = " ".join([mangled(x.type), *map(repr, numbers)])
    table = k.module.globals.get(name)
    if table is None:
        type_ = ir.ArrayType(x.type, len(numbers))
        table = ir.GlobalVariable(k.module, type_, name)
        table.linkage, table.global_constant = "private", True
        table.initializer = ir.Constant(type_, [like(x, number) for number in numbers])
    unknown = k.b.asm(ir.FunctionType(POINTER, [POINTER]), "", "=r,0", [table], side_effect=False)
    places = (k.b.gep(unknown, [I64(i)], inbounds=True, source_etype=x.type) for i in range(len(numbers)))
    return [k.b.load(place, typ=x.type) for place in places]


def load_masked(k: Kernel, base: ir.Value, index: Index, dtype: DType, mask: ir.Value, other: ir.Value) -> ir.Value:
    """Lane i: mask[i] ? base[index + i] : other[i]; memory behind unset lanes is not touched."""
    lanes = mask.type.count
    type_ = vector(dtype, lanes)
    name = f"llvm.masked.load.v{lanes}{suffix(dtype)}.p0"
    function = k.intrinsic(name, type_, POINTER, mask.type, type_)
    return k.b.call_aligned(function, [k.at(base, index, dtype), mask, other], 0, dtype.size)


def store_masked(k: Kernel, value: ir.Value, base: ir.Value, index: Index, dtype: DType, mask: ir.Value) -> None:
    """base[index + i] = value[i] where mask[i]; other memory is not touched."""
    lanes = mask.type.count
    name = f"llvm.masked.store.v{lanes}{suffix(dtype)}.p0"
    function = k.intrinsic(name, ir.VoidType(), value.type, POINTER, mask.type)
    k.b.call_aligned(function, [value, k.at(base, index, dtype), mask], 1, dtype.size)


def load_bool(k: Kernel, base: ir.Value, index: Index, lanes: int = 1) -> ir.Value:
    """base[index : index + lanes] != 0 as i1, from bytes."""
    raw = load(k, base, index, boolean, lanes)
    return k.b.icmp_unsigned("!=", raw, ir.Constant(raw.type, None if lanes > 1 else 0))


def bool_to_byte(k: Kernel, value: ir.Value) -> ir.Value:
    """An i1 (or a vector of them) as the bytes 0 and 1 that tensors hold."""
    assert element_of(value.type) == I1
    return k.b.zext(value, with_element(value.type, I8))


def suffix(dtype: DType) -> str:
    """How intrinsics name the element type: f32, i64."""
    type_ = scalar(dtype)
    return f"i{type_.width}" if isinstance(type_, ir.IntType) else f"f{8 * dtype.size}"
