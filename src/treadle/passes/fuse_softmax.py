"""Recognises softmax written out in primitive ops."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep


class FuseSoftmax:
    """%e = exp(sub(%x, reduce_max(%x))); %y = div(%e, reduce_sum(%e))  ->  %y = softmax(%x)

    The subtraction may be missing. Only under fast math: the fused kernel sums in another order.
    """

    name = "fuse_softmax"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return context.math == "fast" and sweep(graph, context, _RULES)


def divided(node: Node, edit: Edit) -> Value | None:
    """div(exp(x - max(x)), sum(exp(x - max(x)))) -> softmax(x)"""
    exponential = produced_by(node.inputs[0], "exp")
    if exponential is None:
        return None
    axis = _axis(node.inputs[1], "reduce_sum", exponential.output)
    if axis is None:
        return None
    x = exponential.operand(0)
    shift = produced_by(x, "sub")
    if shift is not None and _axis(shift.inputs[1], "reduce_max", shift.operand(0)) == axis:
        x = shift.operand(0)
    return edit.add("softmax", [x], {"axis": axis})


def _axis(value: Value | None, op: str, of: Value) -> int | None:
    """The axis, if `value` is `op` of the value `of` over one axis, kept as an axis of size 1."""
    node = produced_by(value, op)
    if node is None or node.inputs[0] is not of or not node.attrs.get("keepdims") or of.shape is None:
        return None
    axes = node.attrs.get("axes")
    if axes is None or len(axes) != 1:
        return None
    return int(axes[0]) % len(of.shape)


_RULES: Rules = {"div": (divided,)}
