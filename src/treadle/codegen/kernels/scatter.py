"""scatter_elements and scatter_nd: updates written, or combined, into a copy of x one after another."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.ranges import coordinates, offset_at
from treadle.codegen.emit.rows import copy_row
from treadle.codegen.kernels.gather import checked_index, row_of
from treadle.dtypes import DType
from treadle.plan.kernels.scatter import (
    ScatterElementsArgs,
    ScatterElementsSpec,
    ScatterNdArgs,
    ScatterNdSpec,
    ScatterSpec,
)


def _combined(k: Kernel, old: ir.Value, new: ir.Value, dtype: DType, reduction: str) -> ir.Value:
    """old combined with new; the larger and the smaller of a NaN and a number is the NaN."""
    b = k.b
    if reduction == "add":
        return b.fadd(old, new) if dtype.is_float else b.add(old, new)
    if reduction == "mul":
        return b.fmul(old, new) if dtype.is_float else b.mul(old, new)
    order = ">" if reduction == "max" else "<"
    if dtype.is_float:
        kept = b.or_(b.fcmp_ordered(order, old, new), b.fcmp_unordered("uno", old, old))
    else:
        kept = (b.icmp_signed if dtype.kind == "int" else b.icmp_unsigned)(order, old, new)
    return b.select(kept, old, new)


def _put(k: Kernel, spec: ScatterSpec, target: Index, source: Index) -> None:
    """y[target] = updates[source], or both combined."""
    dtype, reduction = spec.dtype, spec.reduction
    y, updates = k.pointer(0), k.pointer(3)
    new = load(k, updates, source, dtype)
    if reduction != "none":
        new = _combined(k, load(k, y, target, dtype), new, dtype, reduction)
    store(k, new, y, target, dtype)


def emit_scatter_elements(k: Kernel, spec: ScatterElementsSpec) -> None:
    """y[i with coordinate `axis` replaced by indices[i]] = updates[i] or both combined, i in row-major order."""
    args = k.args(ScatterElementsArgs[ir.Value], spec)
    shape, strides = args.shape, args.strides
    with loop(k, 0, args.rows, name="row") as row:
        base = offset_at(k, coordinates(k, row.index, shape[:-1]), strides)
        with loop(k, 0, shape[-1], name="element") as element:
            source = k.add(k.mul(row.index, shape[-1]), element.index)
            index = checked_index(k, k.pointer(2), source, spec.wide, args.size)
            target = k.add(k.add(base, k.mul(element.index, strides[-1])), k.mul(index, args.stride))
            _put(k, spec, target, source)


def emit_scatter_nd(k: Kernel, spec: ScatterNdSpec) -> None:
    """y[indices[j, 0], ..., indices[j, depth - 1], :] = updates[j, :] or both combined, for one j after another."""
    args = k.args(ScatterNdArgs[ir.Value], spec)
    dtype, length = spec.dtype, args.length
    with loop(k, 0, args.rows, name="row") as row:
        target = row_of(k, k.pointer(2), k.mul(row.index, spec.depth), spec.wide, args.sizes, args.strides)
        source = k.mul(row.index, length)
        if spec.reduction == "none":
            copy_row(k, k.at(k.pointer(0), target, dtype), k.at(k.pointer(3), source, dtype), length, dtype)
        else:
            with loop(k, 0, length, name="element") as element:
                _put(k, spec, k.add(target, element.index), k.add(source, element.index))
