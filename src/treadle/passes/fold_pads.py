"""Lets convolutions pad their input themselves."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, number, produced_by, sweep


class FoldPads:
    """%p = pad(%x, [0, 0, 1, 1, 0, 0, 1, 1]); %y = conv(%p, %w) pads=(0, 0, 0, 0)  ->  %y = conv(%x, %w) pads=(1, 1, 1,
    1)"""

    name = "fold_pads"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def into_conv(node: Node, edit: Edit) -> Value | None:
    """conv(pad(x, zeros around images)) -> conv(x) with more pads"""
    pad = produced_by(node.inputs[0], "pad")
    if pad is None or pad.attrs["mode"] != "constant":
        return None
    given, value, axes = (pad.inputs[at] if len(pad.inputs) > at else None for at in (1, 2, 3))
    if given is None or given.data is None or axes is not None or (value is not None and number(value) != 0):
        return None
    rank = given.data.size // 2
    begins, ends = given.data[:rank].tolist(), given.data[rank:].tolist()
    if any((*begins[:2], *ends[:2])) or min(*begins, *ends) < 0:
        return None
    pads = tuple(old + new for old, new in zip(node.attrs["pads"], (*begins[2:], *ends[2:]), strict=True))
    return edit.again([pad.inputs[0], *node.inputs[1:]], {**node.attrs, "pads": pads})[0]


_RULES: Rules = {"conv": (into_conv,)}
