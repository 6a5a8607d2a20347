"""Turns SAME padding into numbers, and pads of open sizes into nodes in front of convolutions."""

from __future__ import annotations

from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.ops.window import SAME, pads_of
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, sweep


class ResolvePads:
    """%y = conv(%x: [n, 3, h, 8], %w: [8, 3, 3, 3]) pads=same_upper strides=(2, 2)  ->  %p = pad(%x, [0, 0, 1 - h % 2,
    0, 0, 0, 1, 1]); %y = conv(%p, %w) pads=(0, 0, 0, 0)

    Kernels of convolutions in blocks of channels take numbers for the pads before an image; those of pools take
    expressions too.
    """

    name = "resolve_pads"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def _pooled(node: Node, edit: Edit) -> list[Value] | None:
    if node.attrs["pads"] not in SAME:
        return None
    pads = pads_of(node.attrs, node.operand(0).static_shape[2:], node.attrs["kernel"])
    return edit.again(node.inputs, {**node.attrs, "pads": pads})


def _convolved(node: Node, edit: Edit) -> list[Value] | None:
    x, rank = node.operand(0), len(node.operand(0).static_shape) - 2
    pads = pads_of(node.attrs, x.static_shape[2:], node.operand(1).static_shape[2:])
    inputs = node.inputs
    if any(map(is_expression, pads[:rank])) and x.dtype not in BYTES:
        widths = edit.sizes((0, 0, *pads[:rank], 0, 0, *pads[rank:]), f"{node.name}.pads")
        inputs, pads = [edit.add("pad", [x, widths], {"mode": "constant"}), *inputs[1:]], (0,) * len(pads)
    elif node.attrs["pads"] not in SAME:
        return None
    return edit.again(inputs, {**node.attrs, "pads": pads})


_RULES: Rules = {"conv": (_convolved,), "max_pool": (_pooled,), "avg_pool": (_pooled,)}
