"""Right factors that are not constant, packed before the product where many chunks read the same panel.

Pointers: packed, b. Args: see ARGS.
"""

from __future__ import annotations

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.ranges import coordinates
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.plan.kernel_spec import KernelSpec

ARGS = (
    "columns",
    "depth",
    "panels",
    "b_depth",  # strides, in elements
    "b_column",
    "units",  # panels of all matrices
    "units_per_chunk",
)
"""The int64 arguments in order; then the sizes of the batch dimensions and b's strides along them."""


def emit_gemm_pack(k: Kernel, spec: KernelSpec) -> None:
    """packed[.., p, t, c] = b[.., t, p * width + c], zero where there is no such column.

    Params: dtype, vectors (width = vectors * lanes), source (see copy_panel), batch_rank.
    """
    dtype, rank = spec["dtype"], spec["batch_rank"]
    width = spec["vectors"] * k.target.lanes(dtype)
    arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
    begin, end = k.chunk_range(arg["units"], arg["units_per_chunk"])
    with loop(k, begin, end, name="unit") as unit:
        batch, panel = k.div(unit.index, arg["panels"]), k.rem(unit.index, arg["panels"])
        column = k.mul(panel, width)
        offset: Index = k.mul(column, arg["b_column"])
        places = coordinates(k, batch, [k.arg(len(ARGS) + axis) for axis in range(rank)])
        for axis, place in enumerate(places):
            offset = k.add(offset, k.mul(place, k.arg(len(ARGS) + rank + axis)))
        target = k.at(k.pointer(0), k.mul(unit.index, k.mul(arg["depth"], width)), dtype)
        columns = k.min(k.sub(arg["columns"], column), width)
        strides = arg["b_depth"], arg["b_column"]
        source = k.at(k.pointer(1), offset, dtype)
        copy_panel(k, spec["source"], target, source, strides, (arg["depth"], columns), dtype, width)
