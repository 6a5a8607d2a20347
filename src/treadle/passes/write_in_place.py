"""Rewrites a graph so that outputs that replace a few elements of an input are written into its memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from treadle.graph.graph import Graph, link, unlink
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.match import produced_by, source
from treadle.passes.specialize import copy_graph

_SCATTERS = ("scatter_nd", "scatter_elements")


class Written(NamedTuple):
    """An output that is an input with some elements replaced, such as the keys that a decoder keeps in a buffer."""

    input: str
    output: str


def written_pairs(graph: Graph) -> list[Written]:
    """Return the outputs of `graph` that are an input with some elements replaced, where nothing else reads the input's
    elements.

    An input has one such output at most, and each output one input.
    """
    found = []
    for output in graph.outputs:
        node = _writing_node(output)
        kept = None if node is None else _base(node)
        if node is None or kept is None or kept not in graph.inputs or graph.outputs.count(output) > 1:
            continue
        if graph.is_output(kept) or not _is_for(kept, _first_reader(node)):
            continue
        found.append(Written(kept.name, output.name))
    return found


def write_in_place(graph: Graph, pairs: Collection[Written]) -> Graph:
    """%room = pad(%past); %present = scatter_nd(%room, %places, %new); return %present
    ->  %present = scatter_nd(%past, %places, %new) in_place; return %present

    A copy of `graph`. The outputs of `pairs`, which are some of `written_pairs`, have the shapes of their inputs. The
    node does not copy its first operand: the caller gives the output the memory of the input.
    """
    changed = copy_graph(graph)
    inputs = {value.name: value for value in changed.inputs}
    outputs = {value.name: value for value in changed.outputs}
    for pair in pairs:
        node, kept = _writing_node(outputs[pair.output]), inputs[pair.input]
        assert node is not None, f"{pair.output!r} writes into no input"
        unlink(node)
        node.inputs[0] = kept
        link(node)
        node.attrs = {**node.attrs, "in_place": True}
        for value in {node.output, outputs[pair.output]}:
            value.shape = kept.shape
    changed.drop_unread()
    return changed


def _writing_node(output: Value) -> Node | None:
    """The node that makes `output` by replacing elements of its first operand."""
    node = produced_by(source(output), *_SCATTERS)
    return node if node is not None and node.attrs["reduction"] == "none" else None


def _base(node: Node) -> Value:
    """The value of which `node` replaces elements, without the elements of a pad behind it."""
    base = source(node.operand(0))
    pad = produced_by(base, "pad")
    return base if pad is None or not _is_room(pad) else source(pad.operand(0))


def _first_reader(node: Node) -> Node:
    """The node that reads the base of `node`: it or the pad before it."""
    pad = produced_by(source(node.operand(0)), "pad")
    return node if pad is None else pad


def _is_for(value: Value, reader: Node) -> bool:
    """Whether all that is read of `value` is its shape, and elements by `reader`, of which it is the first operand."""
    users = [node for node in value.users if node.op not in ("shape", "size")]
    return users == [reader]


def _is_room(pad: Node) -> bool:
    """Whether a pad adds nothing where its result has the shape of its operand: it has one width that is not 0."""
    widths, rank = produced_by(pad.operand(1), "concat"), pad.operand(0).shape
    if widths is None or rank is None or len(pad.inputs) > 3 or len(pad.output.users) != 1:
        return False
    known = [value.data for value in widths.inputs if value is not None and value.data is not None]
    computed = len(widths.inputs) - len(known)
    return computed == 1 and not any(data.any() for data in known) and sum(map(len, known)) == 2 * len(rank) - 1
