"""Bodies of branches and loops in passes: each is rewritten for the operands of its node, or takes the node's place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.graph.graph import Graph, link, unlink
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.sizes import add_sizes, known_value
from treadle.passes.match import replace
from treadle.passes.regions import first_region, is_planned
from treadle.passes.specialize import copied, copy_graph, copy_node

Rewrite = Callable[[Graph], Graph]
"""Rewrites a graph in place and returns it."""

BODIES = {"branch": ("yes", "no")}
"""The attributes of an op that hold its bodies."""


def optimize_bodies(graph: Graph, infer: Rewrite, optimize: Rewrite) -> None:
    """Give each node of `graph` that has bodies the attribute `optimized`: the bodies, ready for lowering, in order.

    A node does not get it if sizes in a body depend on data: the node's reference then computes it.
    """
    for node in graph.nodes:
        if node.op not in BODIES or not is_planned(node):
            continue
        bodies = [infer(_for_operands(node.attrs[name], node.inputs[1:])) for name in BODIES[node.op]]
        if all(first_region(body).graph is body for body in bodies):
            node.attrs = {**node.attrs, "optimized": tuple(map(optimize, bodies))}


def _for_operands(body: Graph, operands: Sequence[Value | None]) -> Graph:
    """A copy of `body` for inputs like `operands`: of their shapes, and replaced where their elements are known."""
    present = [value for value in operands if value is not None]
    copy = copy_graph(body, {i.name: value.static_shape for i, value in zip(body.inputs, present, strict=True)})
    sizes: list[Node] = []
    for value, operand in zip(copy.inputs, present, strict=True):
        value.dtype = operand.known_dtype
        known = known_value(operand)
        if known is None:
            continue
        found: Value | Node
        if operand.is_constant:
            found = copy.constant(known, value.name)
        else:
            found = add_sizes(copy, known, value.known_dtype, "sizes")
        if isinstance(found, Node):
            sizes.append(found)
            link(found)
            found = found.output
        copy.replace_uses(value, found)
    copy.nodes[:0] = sizes
    return copy


def inline(graph: Graph, node: Node, body: Graph) -> list[Node]:
    """Let what reads the results of `node` read those of `body`, copied into `graph`.

    Returns the nodes that were copied. They are linked; the caller puts them in place of `node`.
    """
    copies = dict(zip(body.inputs, (value for value in node.inputs[1:] if value is not None), strict=True))
    before = len(graph.nodes)
    made = [copy_node(graph, each, copies, forget_shapes=True) for each in body.nodes]
    del graph.nodes[before:]
    unlink(node)
    for old, new in zip(node.outputs, body.outputs, strict=True):
        replace(graph, old, copied(graph, new, copies))
    return made
