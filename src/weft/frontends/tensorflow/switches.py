"""TensorFlow 1's branches: Switch and Merge, made into nodes that compute one side or choose between both.

A Switch sends its input to one of two sides, and a Merge takes what comes from the side that was taken. Where the
predicate is known (a frozen learning phase), only the side taken is left. Elsewhere both sides are computed, which
frozen graphs allow as nothing in them has effects, and the Merge becomes a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.frontends.faults import Fault, Unsupported
from weft.frontends.tensorflow.body import SWITCHES, Body, known_truth, sorted_nodes
from weft.frontends.tensorflow.node import Node, Ref

CHOICE = "_Choice"
"""The op that a Merge becomes: inputs predicate, value if not, value if so."""

Guards = frozenset[tuple[Ref, int]]
"""On which sides of which predicates a tensor exists."""


def without_switches(body: Body) -> Body:
    """`body` with its Switch and Merge nodes replaced. Raises Fault where they fit no branch."""
    if not any(node.op in SWITCHES or node.op == "Merge" for node in body.nodes.values()):
        return body
    plain = Body(dict(body.nodes), body.arguments, list(body.results), dict(body.aliases))
    guards: dict[str, Guards] = {}
    for node in sorted_nodes([_with_controls(node) for node in body.nodes.values()], {}):
        original = body.nodes[node.name]
        around = _around(original, body, guards)
        if original.op == "Merge":
            around = _merge(original, plain, body, around)
        elif original.op in SWITCHES:
            data = original.inputs[:1]
            plain.aliases.update(((node.name, side), ref) for side in (0, 1) for ref in data)
            del plain.nodes[node.name]
        guards[node.name] = frozenset[tuple[Ref, int]]().union(*around)
    plain.settle()
    return plain


def _with_controls(node: Node) -> Node:
    """The node with its control inputs as tensors, so that they order it."""
    return Node(node.name, node.op, [*node.inputs, *((name, 0) for name in node.controls)])


def _around(node: Node, body: Body, guards: dict[str, Guards]) -> list[Guards]:
    """The guards of each input of `node`, control inputs last."""
    found: list[Guards] = []
    for name, side in [*node.inputs, *((name, -1) for name in node.controls)]:
        own = guards.get(name, frozenset())
        source = body.nodes.get(name)
        if source is not None and source.op in SWITCHES and side >= 0 and len(source.inputs) > 1:
            own |= {(source.inputs[1], min(side, 1))}
        found.append(own)
    return found


def _merge(node: Node, plain: Body, body: Body, around: Sequence[Guards]) -> list[Guards]:
    """Replace the Merge `node` in `plain`; returns the guards that its result still has."""
    if len(node.inputs) != 2:
        raise Unsupported(f"{node.place}: weft takes merges of two sides, got {len(node.inputs)}")
    first, second = around[0], around[1]
    split = [(predicate, side) for predicate, side in first if (predicate, 1 - side) in second]
    if not split:
        raise Fault(f"{node.place}: no Switch parts its two inputs")
    predicate, side = split[0]
    sides = node.inputs if side == 0 else node.inputs[::-1]
    known = known_truth(predicate, body)
    if known is not None:
        plain.aliases[node.name, 0] = sides[known]
        value = np.array(known if side == 0 else 1 - known, np.int32)
    else:
        plain.aliases[node.name, 0] = (f"{node.name}/choice", 0)
        plain.nodes[f"{node.name}/choice"] = Node(f"{node.name}/choice", CHOICE, [predicate, *sides], [], node.attrs)
        value = None
    del plain.nodes[node.name]
    if value is not None:
        plain.nodes[f"{node.name}/index"] = Node(f"{node.name}/index", "Const", [], [], {"value": value})
        plain.aliases[node.name, 1] = (f"{node.name}/index", 0)
    either = {(predicate, 0), (predicate, 1)}
    return [(first | second) - either]
