"""Right factors that are not constant, packed before the product where many chunks read the same panel."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.ranges import coordinates, offset_at
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.plan.kernels.gemm_pack import GemmPackArgs, GemmPackSpec


def emit_gemm_pack(k: Kernel, spec: GemmPackSpec) -> None:
    """packed[.., p, t, c] = b[.., t, p * width + c], zero where there is no such column."""
    dtype = spec.dtype
    width = spec.vectors * k.target.lanes(dtype)
    args = k.args(GemmPackArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="unit") as unit:
        batch, panel = k.div(unit.index, args.panels), k.rem(unit.index, args.panels)
        column = k.mul(panel, width)
        start = k.mul(column, args.b_column)
        offset = offset_at(k, coordinates(k, batch, args.sizes), args.b_batch, start)
        target = k.at(k.pointer(0), k.mul(unit.index, k.mul(args.depth, width)), dtype)
        columns = k.min(k.sub(args.columns, column), width)
        strides = args.b_depth, args.b_column
        source = k.at(k.pointer(1), offset, dtype)
        copy_panel(k, spec.source, target, source, strides, (args.depth, columns), dtype, width)
