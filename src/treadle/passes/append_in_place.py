"""Rewrites a graph so that its outputs grow in the memory of the inputs that they append to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape, normalize_axis
from treadle.graph.value import Value
from treadle.passes.match import produced_by, source
from treadle.passes.specialize import copy_graph

_MOVES = frozenset({"identity", "gather", "split", "slice", "squeeze", "unsqueeze", "transpose", "concat"})
"""Ops whose results are elements of their operands, in another order."""


class Appended(NamedTuple):
    """An output that appends to an input along `axis`."""

    input: str
    output: str
    axis: int


def appended_pairs(graph: Graph) -> list[Appended]:
    """Return the outputs of `graph` that append to an input, whose elements nothing else reads.

    An input has one such output at most, and each output appends to one input.
    """
    found = []
    for output in graph.outputs:
        node = appending_node(output)
        if node is not None:
            kept = source(node.operand(0))
            if kept not in graph.inputs or kept.shape is None or graph.outputs.count(output) > 1:
                continue
            if only_appended_to(kept, [node]):
                found.append(Appended(kept.name, output.name, normalize_axis(node.attrs["axis"], len(kept.shape))))
    return found


def append_in_place(graph: Graph, pairs: Mapping[str, Appended]) -> Graph:
    """%present = concat(%past, %new) axis=2; return %present
    ->  %rows = concat(%past', transpose(%new)) axis=0 appends; %present = transpose(%rows); return %rows

    A copy of `graph`. The inputs and outputs of `pairs`, which are some of `appended_pairs` by input, have the axis
    that grows first, so that new elements lie behind all old ones. The concatenation does not copy its first operand:
    the caller gives the output memory that begins with it.
    """
    changed = copy_graph(graph)
    inputs = {value.name: number for number, value in enumerate(changed.inputs)}
    outputs = {value.name: number for number, value in enumerate(changed.outputs)}
    replaced: dict[Node, list[Node]] = {}
    first: list[Node] = []
    for pair in pairs.values():
        number, result = inputs[pair.input], changed.outputs[outputs[pair.output]]
        node = appending_node(result)
        assert node is not None, f"{pair.output!r} appends to nothing"
        kept, present = changed.inputs[number], node.output
        rank = len(kept.shape or ())
        perm = (pair.axis, *(axis for axis in range(rank) if axis != pair.axis))
        back = {"perm": tuple(perm.index(axis) for axis in range(rank))}

        rows = changed.value(pair.input, kept.dtype, _permuted(kept.shape, perm))
        kept.name, rows.name = rows.name, kept.name
        changed.inputs[number] = rows
        first.append(changed.make("transpose", [rows], back, name=kept.name, outputs=[kept]))

        made = [changed.make("transpose", [value], {"perm": perm}, name=node.name) for value in node.inputs[1:]]
        grown = changed.value(pair.output, present.dtype, _permuted(present.shape, perm))
        grown.name, result.name = result.name, grown.name
        changed.outputs[outputs[pair.output]] = grown
        operands = [rows, *(each.output for each in made)]
        joined = changed.make("concat", operands, {"axis": 0, "appends": True}, name=node.name, outputs=[grown])
        restored = changed.make("transpose", [grown], back, name=node.name, outputs=[present])
        for each in (*made, joined, restored):
            each.take_over([node])
        replaced[node] = [*made, joined, restored]
    changed.rebuild([*first, *(each for node in changed.nodes for each in replaced.get(node, [node]))])
    return changed


def appending_node(output: Value) -> Node | None:
    """The concatenation that makes `output`."""
    node = produced_by(source(output), "concat")
    if node is None or len(node.inputs) < 2 or None in node.inputs:
        return None
    return node


def only_appended_to(value: Value, readers: Sequence[Node]) -> bool:
    """Whether all that is read of `value` is its shape, and elements that `readers` append to: as their first operand,
    also where `value` was moved before."""
    for node in value.users:
        if node in readers:
            if value in node.inputs[1:]:
                return False
        elif node.op in _MOVES:
            if not all(only_appended_to(result, readers) for result in node.outputs):
                return False
        elif node.op not in ("shape", "size"):
            return False
    return True


def _permuted(shape: Shape | None, perm: tuple[int, ...]) -> Shape | None:
    return None if shape is None else tuple(shape[axis] for axis in perm)
