"""resize: a lookup for the nearest neighbour, one weighted sum an axis for the other modes."""

from __future__ import annotations

import numpy as np

from treadle.dtypes import f32, f64
from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.shape import around
from treadle.graph.value import Value
from treadle.ops.interpolation import AxisWeights
from treadle.ops.resize import resizing, tables
from treadle.passes.lower.base import BYTES_PER_NS, CALL_NS, LowerContext, nbytes, partition
from treadle.passes.lower.lookup import lookup_call
from treadle.plan.call import Call
from treadle.plan.kernels.lookup import OUTSIDE
from treadle.plan.kernels.resample import ResampleArgs, ResampleSpec


def lower_resize(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns one call for the nearest neighbour, else one a resized axis; none, and an alias, where nothing changes.

    Returns None if roi, scales or sizes are no constants, if blocked channels are resized, and in linear and cubic
    modes for dtypes other than f32 and f64 and for extrapolated positions.
    """
    x, y = node.operand(0), node.output
    given = [*node.inputs[1:], None, None, None][:3]
    if any(value is not None and not value.is_constant for value in given) or x.layout != y.layout:
        return None
    resized = resizing(node.attrs, x.static_shape, *(None if value is None else value.data for value in given))
    changed = tables(node.attrs, x.static_shape, resized)
    if not changed and x.static_shape == y.static_shape:
        ctx.alias(y, x)
        return []
    if x.known_dtype.kind == "string" or (x.layout is not None and 1 in changed):
        return None
    if node.attrs["mode"] == "nearest":
        return [_nearest(node, ctx, changed)]
    if x.known_dtype not in (f32, f64) or any(table.outside.any() for table in changed.values()):
        return None
    calls: list[Call] = []
    source = x
    for number, (axis, table) in enumerate(changed.items(), start=1):
        shape = (*source.static_shape[:axis], len(table.indices), *source.static_shape[axis + 1 :])
        target = y if number == len(changed) else ctx.temporary(f"{y.name}.axis{axis}", y.known_dtype, shape)
        target.layout = y.layout
        calls.append(_resample(node, ctx, target, source, axis, table))
        source = target
    return calls


def _nearest(node: Node, ctx: LowerContext, changed: dict[int, AxisWeights]) -> Call:
    x, y = node.operand(0), node.output
    shape = physical_shape(x.static_shape, x.layout)
    positions = [np.arange(dim, dtype=np.int64) for dim in shape]
    for axis, table in changed.items():
        positions[axis] = np.where(table.outside, OUTSIDE, table.indices[:, 0]).astype(np.int64)
    run = 1 if x.layout is None else len(positions.pop())
    outside = np.asarray([node.attrs.get("extrapolation", 0.0)]).astype(y.known_dtype.numpy)
    return lookup_call(node, ctx, ctx.constant(outside, f"{y.name}.outside"), positions, run)


def _resample(node: Node, ctx: LowerContext, target: Value, source: Value, axis: int, table: AxisWeights) -> Call:
    dtype = target.known_dtype
    shape = physical_shape(source.static_shape, source.layout)
    out, taps = table.indices.shape
    outer, _, length = around(shape, axis)
    indices = ctx.constant(table.indices.astype(np.int64), f"{target.name}.indices")
    weights = ctx.constant(table.weights.astype(dtype.numpy), f"{target.name}.weights")
    units = outer * out if length else 0
    flops = 2.0 * outer * out * length * taps
    traffic = float(nbytes(target) + nbytes(source))
    cost = traffic / BYTES_PER_NS + flops / (2.0 if length == 1 else ctx.target.lanes(dtype))
    chunks, per_chunk = partition(units, cost / max(units, 1))
    spec = ResampleSpec(dtype=dtype, single=length == 1)
    args = ResampleArgs(
        units=units,
        units_per_chunk=per_chunk,
        out_size=max(out, 1),
        size=shape[axis],
        taps=taps,
        length=length,
    )
    reads = (source, indices, weights)
    return ctx.call(
        node, spec, (target,), reads, args=args, chunks=chunks, flops=flops, traffic=traffic, cost=CALL_NS + cost
    )
