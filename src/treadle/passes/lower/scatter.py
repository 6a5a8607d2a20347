"""scatter_elements and scatter_nd: a copy of x, unless it is there already, then one kernel that writes the updates, in
order."""

from __future__ import annotations

from typing import TypedDict

from treadle import dtypes
from treadle.dtypes import DType, i64
from treadle.graph.dim import equals, maximum
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import elements, normalize_axis, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import copy_call, dense_target, is_movable
from treadle.passes.lower.gather import INDEX_DTYPES, PICK_NS, element_strides
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs
from treadle.plan.kernels.scatter import (
    ScatterElementsArgs,
    ScatterElementsSpec,
    ScatterNdArgs,
    ScatterNdSpec,
    ScatterSpec,
)

_NARROW_FLOATS = (dtypes.f16, dtypes.bf16)


class _Common(TypedDict):
    """What `ScatterSpec` has."""

    dtype: DType
    wide: bool
    reduction: str


def lower_scatter_elements(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Two calls; None for indices other than i32 and i64, and for arithmetic on 16-bit floats and booleans."""
    indices = node.operand(1)
    shape = indices.static_shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    target = node.operand(0).static_shape
    if not _has_kernel(node):
        return None
    spec = ScatterElementsSpec(**_common(node), rank=len(shape))
    args = ScatterElementsArgs(
        rows=elements(shape[:-1]) if not equals(elements(shape), 0) else 0,
        size=target[axis],
        stride=strides_of(target)[axis],
        shape=tuple(maximum(dim, 1) for dim in shape),
        strides=element_strides(node.operand(0), axis),
    )
    return _calls(node, ctx, spec, args)


def lower_scatter_nd(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Two calls; None for indices other than i32 and i64, and for arithmetic on 16-bit floats and booleans."""
    indices, shape = node.operand(1).static_shape, node.operand(0).static_shape
    depth = indices[-1]
    length = elements(shape[depth:])
    if not _has_kernel(node):
        return None
    spec = ScatterNdSpec(**_common(node), depth=depth)
    args = ScatterNdArgs(
        rows=elements(indices[:-1]) if not equals(length, 0) else 0,
        length=length,
        sizes=shape[:depth],
        strides=strides_of(shape)[:depth],
    )
    return _calls(node, ctx, spec, args)


def _has_kernel(node: Node) -> bool:
    x, indices, updates, y = node.operand(0), node.operand(1), node.operand(2), node.output
    dtype = x.known_dtype
    computes = node.attrs["reduction"] == "none" or (dtype not in _NARROW_FLOATS and dtype.kind != "bool")
    return is_movable(x, indices, updates, y) and indices.known_dtype in INDEX_DTYPES and computes


def _common(node: Node) -> _Common:
    """The parameters that both kernels have."""
    wide = node.operand(1).known_dtype == i64
    return {"dtype": node.operand(0).known_dtype, "wide": wide, "reduction": node.attrs["reduction"]}


def _calls(node: Node, ctx: LowerContext, spec: ScatterSpec, args: KernelArgs[int]) -> list[Call]:
    """A copy of x to y where y is not in its memory, then the kernel of `spec`."""
    x, indices, updates, y = node.operand(0), node.operand(1), node.operand(2), node.output
    copies = (
        []
        if is_written(ctx.graph, y)
        else [copy_call(node, ctx, y, x, dense_target(x.static_shape, strides_of(x.static_shape)))]
    )
    cost = elements(indices.static_shape) * PICK_NS + elements(updates.static_shape)
    traffic = 2 * nbytes(updates) + nbytes(indices)
    put = ctx.call(node, spec, (y,), (y, indices, updates), args=args, traffic=traffic, cost=ctx.machine.call_ns + cost)
    return [*copies, put]


def is_written(graph: Graph, value: Value) -> bool:
    """Whether `value` is an output whose memory the caller gives, which is that of the input it is written into."""
    node = value.producer
    if node is None or not node.attrs.get("in_place"):
        return False
    return node.inputs[0] in graph.inputs and graph.is_output(value)
