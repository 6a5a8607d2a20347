"""Leaves stacked values that nobody reads out of loops, and makes carried values that never change captured ones.

The size of a stacked value may be the only one in a graph that is not known. A carried value is copied in each
iteration, and a carried matrix cannot be packed once for all products.
"""

from __future__ import annotations

from treadle.graph.graph import Graph, link, unlink
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.loop import form_of
from treadle.passes.base import PassContext
from treadle.passes.match import source
from treadle.passes.specialize import copy_graph


class TrimLoops:
    """%a, %b, %n = loop(..., body: again, x, y); return %a  ->  %a, %n = loop(..., body: again, x); return %a

    A carried value that every iteration leaves as it is becomes a captured one. A loop that carries and stacks nothing
    else is left out, as all nodes that no output depends on, even if it would never end.
    """

    name = "trim_loops"

    def run(self, graph: Graph, context: PassContext) -> bool:
        """True if a loop stacks or carries less than before."""
        loops = [node for node in graph.nodes if node.op == "loop"]
        if not loops:
            return False
        graph.drop_unread()
        trimmed = [_capture(graph, node) | _trim(graph, node) for node in loops]
        return any(trimmed)


def _capture(graph: Graph, node: Node) -> bool:
    form = form_of(node.attrs)
    before: Graph = node.attrs["body"]
    kept = [number for number in range(form.carried) if not _is_unchanged(before, 1 + number)]
    moved = [number for number in range(form.carried) if number not in kept]
    if not moved:
        return False
    body = copy_graph(before)
    inputs, outputs, operands = list(body.inputs), list(body.outputs), list(node.inputs)
    body.inputs = [inputs[0], *(inputs[1 + n] for n in kept), *inputs[1 + form.carried :]]
    body.inputs += [inputs[1 + n] for n in moved]
    body.outputs = [outputs[0], *(outputs[1 + n] for n in kept), *outputs[1 + form.carried :]]
    body.drop_unread()
    for number in moved:
        operand = operands[2 + number]
        assert operand is not None, "a carried value begins as one"
        graph.replace_uses(node.outputs[number], operand)
    unlink(node)
    node.inputs = [*operands[:2], *(operands[2 + n] for n in kept), *operands[2 + form.carried :]]
    node.inputs += [operands[2 + n] for n in moved]
    node.outputs = [*(node.outputs[n] for n in kept), *node.outputs[form.carried :]]
    node.attrs = {**node.attrs, "body": body, "carried": len(kept)}
    link(node)
    return True


def _is_unchanged(body: Graph, number: int) -> bool:
    """Whether the carried value at input `number` of `body` is the same after every iteration."""
    return source(body.outputs[number]) is body.inputs[number]


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
