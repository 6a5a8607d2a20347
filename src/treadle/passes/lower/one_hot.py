"""Lowering of one_hot: rows of "off" with one "on"."""

from __future__ import annotations

from treadle.dtypes import i64
from treadle.graph.dim import equals, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements, normalize_axis
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.passes.lower.gather import INDEX_DTYPES
from treadle.plan.call import Call
from treadle.plan.kernels.one_hot import OneHotArgs, OneHotSpec


def lower_one_hot(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for indices other than i32 and i64."""
    indices, values, y = node.operand(0), node.operand(2), node.output
    if not is_movable(indices, values, y) or indices.known_dtype not in INDEX_DTYPES:
        return None
    axis = normalize_axis(node.attrs["axis"], len(y.static_shape))
    outer, depth, inner = (elements(part) for part in _parts(y.static_shape, axis))
    units = outer if not equals(depth * inner, 0) else 0
    cost = ctx.moved_ns(nbytes(y)) + elements(indices.static_shape)
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = OneHotSpec(size=values.known_dtype.size, wide=indices.known_dtype == i64)
    args = OneHotArgs(units=units, units_per_chunk=per_chunk, depth=depth, inner=inner)
    return [ctx.call(node, spec, (y,), (indices, values), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]


def _parts(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return shape[:axis], shape[axis : axis + 1], shape[axis + 1 :]
