"""A function of one byte, read from a table of its 256 values."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I64, vector
from treadle.codegen.emit.vectors import like
from treadle.codegen.kernels.expr import load_value, store_value
from treadle.codegen.kernels.fold import each_vector
from treadle.dtypes import u8
from treadle.plan.kernels.byte_table import ByteTableArgs, ByteTableSpec

_LANES = 64


def emit_byte_table(k: Kernel, spec: ByteTableSpec) -> None:
    """out[i] = table[x[i]], bytes without a sign."""
    args = k.args(ByteTableArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.elements, args.elements_per_chunk)
    if not k.target.has_byte_permutes:
        with loop(k, begin, end, name="byte") as turn:
            number = k.b.zext(load(k, k.pointer(1), turn.index, u8), I64)
            store(k, load(k, k.pointer(2), number, u8), k.pointer(0), turn.index, u8)
        return
    quarters = [load(k, k.pointer(2), start, u8, _LANES) for start in range(0, 256, _LANES)]
    type_ = vector(u8, _LANES)
    permute = k.intrinsic("llvm.x86.avx512.vpermi2var.qi.512", type_, type_, type_, type_)

    def write(index: Index, mask: ir.Value | None) -> None:
        x = load_value(k, k.pointer(1), index, u8, _LANES, mask)
        low, high = (k.b.call(permute, [quarters[i], x, quarters[i + 1]]) for i in (0, 2))
        value = k.b.select(k.b.icmp_signed("<", x, like(x, 0)), high, low)
        store_value(k, value, k.pointer(0), index, u8, mask)

    each_vector(k, write, begin, end, _LANES, unroll=2)
