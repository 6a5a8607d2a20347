"""Leaves out stacked values of loops that nobody reads: their size may be all that is not known of a graph."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.loop import form_of
from treadle.passes.base import PassContext
from treadle.passes.match import drop_dead
from treadle.passes.specialize import copy_graph


class TrimLoops:
    """%a, %b, %n = loop(..., body: again, x, y); return %a  ->  %a, %n = loop(..., body: again, x); return %a"""

    name = "trim_loops"

    def run(self, graph: Graph, context: PassContext) -> bool:
        """True if a loop stacks less than before."""
        loops = [node for node in graph.nodes if node.op == "loop"]
        if not loops:
            return False
        drop_dead(graph)
        trimmed = [_trim(graph, node) for node in loops]
        return any(trimmed)


def _trim(graph: Graph, node: Node) -> bool:
    form = form_of(node.attrs)
    stacked = range(form.carried, form.carried + form.stacked)
    unread = {number for number in stacked if not _is_read(graph, node.outputs[number])}
    if not unread:
        return False
    body = copy_graph(node.attrs["body"])
    body.outputs = [value for number, value in enumerate(body.outputs, -1) if number not in unread]
    node.outputs = [value for number, value in enumerate(node.outputs) if number not in unread]
    node.attrs = {**node.attrs, "body": body}
    return True


def _is_read(graph: Graph, value: Value) -> bool:
    return bool(value.users) or graph.is_output(value)
