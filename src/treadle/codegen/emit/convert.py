"""Conversion between element types. Inside kernels booleans are i1."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.bfloat import round_to_bfloat, widen_bfloat
from treadle.codegen.emit.half import round_to_half, widen_half
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import I1, I32, I64, scalar, with_element
from treadle.codegen.emit.vectors import like
from treadle.dtypes import DType, bf16, boolean, f16, f32, u64


def value_type(dtype: DType) -> ir.Type:
    """The type of one element inside a kernel: as in memory, but i1 for booleans."""
    return I1 if dtype == boolean else scalar(dtype)


def convert(k: Kernel, value: ir.Value, source: DType, target: DType) -> ir.Value:
    """`value` as `target`. Floats become integers by dropping the fraction, wrapping around where they are
    narrower than 32 bits; beyond the range the result is unspecified. Anything but 0 is True (NaN too)."""
    if source == bf16 and target != bf16:
        value, source = widen_bfloat(k, value), f32
    if source == f16 and target != f16:
        value, source = widen_half(k, value), f32
    if source == target:
        return value
    if target == bf16:
        return round_to_bfloat(k, convert(k, value, source, f32))
    if target == f16:
        return round_to_half(k, convert(k, value, source, f32))
    type_ = with_element(value.type, value_type(target))
    if source.is_float:
        return _from_float(k, value, source, target, type_)
    if target == boolean:
        return k.b.icmp_unsigned("!=", value, like(value, 0))
    return _from_integer(k, value, source, target, type_)


def _from_integer(k: Kernel, value: ir.Value, source: DType, target: DType, type_: ir.Type) -> ir.Value:
    signed = source.kind == "int"
    if target.is_float:
        return k.b.sitofp(value, type_) if signed else k.b.uitofp(value, type_)
    if source != boolean and target.size <= source.size:
        return value if target.size == source.size else k.b.trunc(value, type_)
    return k.b.sext(value, type_) if signed else k.b.zext(value, type_)


def _from_float(k: Kernel, value: ir.Value, source: DType, target: DType, type_: ir.Type) -> ir.Value:
    if target == boolean:
        return k.b.fcmp_unordered("!=", value, like(value, 0.0))
    if target.is_float:
        return k.b.fpext(value, type_) if target.size > source.size else k.b.fptrunc(value, type_)
    if target == u64:
        return k.b.fptoui(value, type_)
    direct = target.kind == "int" and target.size >= 4
    if direct:
        return k.b.fptosi(value, type_)
    return k.b.trunc(k.b.fptosi(value, with_element(value.type, I64 if target.size == 4 else I32)), type_)
