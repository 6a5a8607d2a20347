"""Turns local response normalisation into a mean over channels and elementwise steps."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, sweep


class ExpandLrn:
    """%y = lrn(%x: [n, c, h, w]) size=5  ->  %m = avg_pool(%x * %x as [n, 1, c, h * w]) kernel=(5, 1), pads counted;
    %y = %x * (bias + alpha * %m) ** -beta
    """

    name = "expand_lrn"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def _expand(node: Node, edit: Edit) -> Value | None:
    x, size = node.operand(0), node.attrs["size"]
    if x.dtype not in (dtypes.f32, dtypes.f64):
        return None
    shape = x.static_shape
    squares = edit.reshape(edit.add("mul", [x, x]), (shape[0], 1, shape[1], elements(shape[2:])))
    window = {
        "kernel": (size, 1),
        "strides": (1, 1),
        "pads": ((size - 1) // 2, 0, size // 2, 0),
        "dilations": (1, 1),
        "ceil_mode": False,
        "count_include_pad": True,
    }
    mean = edit.reshape(edit.add("avg_pool", [squares], window), shape)
    alpha, bias, beta = (edit.constant(node.attrs[name], like=x) for name in ("alpha", "bias", "beta"))
    base = edit.add("add", [edit.add("mul", [mean, alpha]), bias])
    return edit.add("div", [x, edit.add("pow", [base, beta])])


_RULES: Rules = {"lrn": (_expand,)}
