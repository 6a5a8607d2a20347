"""scatter_elements and scatter_nd: a copy of x, then one kernel that puts the updates in, in order."""

from __future__ import annotations

from treadle import dtypes
from treadle.dtypes import i64
from treadle.graph.node import Node
from treadle.graph.shape import elements, normalize_axis, strides_of
from treadle.passes.lower.base import CALL_NS, LowerContext, nbytes
from treadle.passes.lower.copy import copy_call, dense_target, is_movable
from treadle.passes.lower.gather import INDEX_DTYPES, PICK_NS, element_strides
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec

_NARROW_FLOATS = (dtypes.f16, dtypes.bf16)


def lower_scatter_elements(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Two calls; None for indices other than i32 and i64, and for arithmetic on 16-bit floats and booleans."""
    indices = node.operand(1)
    shape = indices.static_shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    target = node.operand(0).static_shape
    rows = elements(shape[:-1]) if elements(shape) else 0
    args = (
        rows, target[axis], strides_of(target)[axis], *(max(dim, 1) for dim in shape),
        *element_strides(node.operand(0), axis),
    )  # fmt: skip
    return _lower(node, ctx, "scatter_elements", args, rank=len(shape))


def lower_scatter_nd(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Two calls; None for indices other than i32 and i64, and for arithmetic on 16-bit floats and booleans."""
    indices, shape = node.operand(1).static_shape, node.operand(0).static_shape
    depth = indices[-1]
    length = elements(shape[depth:])
    rows = elements(indices[:-1]) if length else 0
    args = (rows, length, *shape[:depth], *strides_of(shape)[:depth])
    return _lower(node, ctx, "scatter_nd", args, depth=depth)


def _lower(node: Node, ctx: LowerContext, family: str, args: tuple[int, ...], **params: int) -> list[Call] | None:
    x, indices, updates, y = node.operand(0), node.operand(1), node.operand(2), node.output
    dtype, reduction = x.known_dtype, node.attrs["reduction"]
    computes = reduction == "none" or (dtype not in _NARROW_FLOATS and dtype.kind != "bool")
    if not is_movable(x, indices, updates, y) or indices.known_dtype not in INDEX_DTYPES or not computes:
        return None
    spec = KernelSpec.of(family, dtype=dtype, wide=indices.known_dtype == i64, reduction=reduction, **params)
    copy = copy_call(node, ctx, y, x, dense_target(x.static_shape, strides_of(x.static_shape)))
    cost = elements(indices.static_shape) * PICK_NS + elements(updates.static_shape)
    traffic = float(2 * nbytes(updates) + nbytes(indices))
    put = ctx.call(node, spec, (y,), (y, indices, updates), args=args, traffic=traffic, cost=CALL_NS + cost)
    return [copy, put]
