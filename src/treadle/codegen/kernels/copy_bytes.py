"""Copying bytes from one buffer to another. args: bytes, bytes per chunk."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel, as_i64
from treadle.codegen.emit.types import I1, I64, POINTER
from treadle.dtypes import u8
from treadle.plan.kernel_spec import KernelSpec


def emit_copy_bytes(k: Kernel, _spec: KernelSpec) -> None:
    """out[begin : end] = in[begin : end] for the chunk's range of bytes."""
    begin, end = k.chunk_range(k.arg(0), k.arg(1))
    memcpy = k.intrinsic("llvm.memcpy.p0.p0.i64", ir.VoidType(), POINTER, POINTER, I64, I1)
    source, target = k.at(k.pointer(1), begin, u8), k.at(k.pointer(0), begin, u8)
    k.b.call(memcpy, [target, source, as_i64(k.sub(end, begin)), I1(0)])
