"""resize: a lookup for the nearest neighbour, one weighted sum an axis for the other modes."""

from __future__ import annotations

import math

import numpy as np

from treadle.dtypes import bf16, f32, f64
from treadle.graph.dim import equals, maximum
from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.shape import around, is_open
from treadle.graph.value import Value
from treadle.ops.resize import Resizing, changed_axes, resizing, tables
from treadle.ops.sizes import known_value
from treadle.passes.lower.base import Array, LowerContext, nbytes
from treadle.passes.lower.interpolation import Taps, taps_of
from treadle.passes.lower.lookup import lookup_call
from treadle.passes.lower.places import Places, open_lookup_calls
from treadle.plan.call import Call
from treadle.plan.kernels.lookup import OUTSIDE
from treadle.plan.kernels.places import PlacesSpec
from treadle.plan.kernels.resample import ResampleArgs, ResampleSpec


def lower_resize(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns one call for the nearest neighbour, else one a resized axis and those that write its tables; none, and an
    alias, where nothing changes.

    Returns None if roi, scales or sizes are neither constants nor sizes, if blocked channels are resized, and in linear
    and cubic modes for dtypes other than f32 and f64 and for extrapolated positions.
    """
    x, y = node.operand(0), node.output
    known = _known(node)
    if x.layout != y.layout or known is None:
        return None
    found = resizing(node.attrs, x.static_shape, *known)
    changed = changed_axes(node.attrs, x.static_shape, found)
    if not changed and x.static_shape == y.static_shape:
        ctx.alias(y, x)
        return []
    if x.known_dtype.kind == "string" or (x.layout is not None and 1 in changed):
        return None
    if node.attrs["mode"] == "nearest":
        return _nearest(node, ctx, found, changed)
    return _interpolated(node, ctx, found, changed) if x.known_dtype in (f32, f64) else None


def can_resize_blocked(node: Node) -> bool:
    """Whether a kernel of a `resize` node reads and writes blocks of channels."""
    x = node.operand(0)
    known = _known(node)
    if known is None or node.attrs["coordinate_mode"] == "tf_crop_and_resize":
        return False
    if x.known_dtype not in ((f32, f64, bf16) if node.attrs["mode"] == "nearest" else (f32, f64)):
        return False
    found = resizing(node.attrs, x.static_shape, *known)
    return min(changed_axes(node.attrs, x.static_shape, found), default=2) >= 2


def _known(node: Node) -> list[Array | None] | None:
    """The operands roi, scales and sizes, None for absent ones and a roi that the mode does not read; None if one is
    neither a constant nor sizes."""
    given = [*node.inputs[1:], None, None, None][:3]
    if node.attrs["coordinate_mode"] != "tf_crop_and_resize":
        given[0] = None
    known = [None if value is None else known_value(value) for value in given]
    unknown = any(value is not None and array is None for value, array in zip(given, known, strict=True))
    return None if unknown else known


def _interpolated(node: Node, ctx: LowerContext, found: Resizing, changed: list[int]) -> list[Call] | None:
    y, source = node.output, node.operand(0)
    calls: list[Call] = []
    for axis in changed:
        shape = (*source.static_shape[:axis], found.sizes[axis], *source.static_shape[axis + 1 :])
        target = y if axis == changed[-1] else ctx.temporary(f"{y.name}.axis{axis}", y.known_dtype, shape)
        taps = taps_of(node, ctx, found, axis, target.name)
        if taps is None:
            return None
        target.layout = y.layout
        calls += [*taps.calls, _resample(node, ctx, target, source, axis, taps)]
        source = target
    return calls


def _nearest(node: Node, ctx: LowerContext, found: Resizing, changed: list[int]) -> list[Call]:
    x, y = node.operand(0), node.output
    outside = np.asarray([node.attrs.get("extrapolation", 0.0)]).astype(y.known_dtype.numpy)
    value = ctx.constant(outside, f"{y.name}.outside")
    shape = physical_shape(x.static_shape, x.layout)
    if is_open((*x.static_shape, *found.sizes)) and node.attrs["coordinate_mode"] != "tf_crop_and_resize":
        return open_lookup_calls(node, ctx, value, _places(node, found, changed))
    table_of = tables(node.attrs, x.static_shape, found)
    last = max(table_of, default=len(x.static_shape) - 1)
    positions = []
    for axis, size in enumerate(shape[: last + 1]):
        table = table_of.get(axis)
        taken = np.arange(size) if table is None else np.where(table.outside, OUTSIDE, table.indices[:, 0])
        positions.append(taken.astype(np.int64))
    return [lookup_call(node, ctx, value, positions, math.prod(shape[last + 1 :]))]


def _places(node: Node, found: Resizing, changed: list[int]) -> list[Places | None]:
    """The table of each axis, None where it does not change."""
    shape, mode = node.operand(0).static_shape, node.attrs["coordinate_mode"]
    spec = PlacesSpec(
        how="nearest", coordinate_mode=mode, nearest_mode=node.attrs.get("nearest_mode", "round_prefer_floor")
    )
    places: list[Places | None] = [None] * len(shape)
    for axis in changed:
        places[axis] = Places(spec, found.sizes[axis], shape[axis], scale=found.scales[axis])
    return places


def _resample(node: Node, ctx: LowerContext, target: Value, source: Value, axis: int, tables: Taps) -> Call:
    dtype = target.known_dtype
    shape = physical_shape(source.static_shape, source.layout)
    out, taps = tables.out, tables.taps
    outer, _, length = around(shape, axis)
    units = outer * out if not equals(length, 0) else 0
    single = equals(length, 1)
    flops = 2.0 * outer * out * length * taps
    traffic = nbytes(target) + nbytes(source)
    cost = ctx.moved_ns(traffic) + flops / (2.0 if single else ctx.target.lanes(dtype))
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = ResampleSpec(dtype=dtype, single=single)
    args = ResampleArgs(
        units=units,
        units_per_chunk=per_chunk,
        out_size=maximum(out, 1),
        size=shape[axis],
        taps=taps,
        length=length,
    )
    reads = (source, tables.indices, tables.weights)
    return ctx.call(
        node,
        spec,
        (target,),
        reads,
        args=args,
        chunks=chunks,
        flops=flops,
        traffic=traffic,
        cost=ctx.machine.call_ns + cost,
    )
