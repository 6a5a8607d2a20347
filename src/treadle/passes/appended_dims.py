"""Open dimensions along which a graph only appends to its inputs, such as the length of a decoder's past."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value


def appended_dims(graph: Graph) -> set[str]:
    """The names of open dimensions that inputs of `graph` have only along axes on which they are concatenated.

    Such a size is often 0: nothing is kept before the first step of a decoder. All other sizes are at least 1 in
    ordinary runs, which lowering makes use of.
    """
    found: dict[str, bool] = {}
    for value in graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, str):
                found[dim] = found.get(dim, True) and all(_appends(user, value, axis) for user in value.users)
    return {name for name, appended in found.items() if appended}


def _appends(node: Node, value: Value, axis: int) -> bool:
    """Whether `node` reads nothing but the shape of the input `value`, or concatenates it on `axis`."""
    if node.op == "concat":
        return normalize_axis(node.attrs["axis"], len(value.shape or ())) == axis
    return node.op in ("shape", "size")
