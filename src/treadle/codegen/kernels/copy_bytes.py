"""copy_bytes: one buffer to another."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel, as_i64
from treadle.codegen.emit.types import I1, I64, POINTER
from treadle.dtypes import u8
from treadle.plan.kernels.copy_bytes import CopyBytesArgs, CopyBytesSpec


def emit_copy_bytes(k: Kernel, spec: CopyBytesSpec) -> None:
    """target[begin : end] = source[begin : end] for the chunk's range of bytes."""
    args = k.args(CopyBytesArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.bytes, args.bytes_per_chunk)
    memcpy = k.intrinsic("llvm.memcpy.p0.p0.i64", ir.VoidType(), POINTER, POINTER, I64, I1)
    source, target = k.at(k.pointer(1), begin, u8), k.at(k.pointer(0), begin, u8)
    k.b.call(memcpy, [target, source, as_i64(k.sub(end, begin)), I1(0)])
