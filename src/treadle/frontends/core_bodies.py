"""Which graphs can be bodies of branches and loops that the native core runs, and what is known of their values."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.shape import equal_shapes, is_static
from treadle.graph.value import Value


def needs_python(graph: Graph) -> bool:
    """Return whether a node runs as Python: it has effects, takes strings, or is compiled in the run."""
    strings = any(value.dtype is dtypes.string for value in graph.inputs)
    return strings or any(node.op == "call" for node in all_nodes(graph))


def is_known(value: Value) -> bool:
    """Return whether the shape of `value` has numbers and expressions of sizes alone."""
    return value.shape is not None and is_static(value.shape)


def knows_sizes(graph: Graph) -> bool:
    """Return whether all shapes in a graph are known, and in the bodies of its nodes."""
    return all(is_known(value) for node in all_nodes(graph) for value in node.outputs)


def same_forms(values: Sequence[Value], others: Sequence[Value]) -> bool:
    """Return whether there are as many values as others, and each pair has one dtype, no string, and one known shape.

    A shape is known if it has numbers and expressions of sizes.
    """
    if len(values) != len(others) or any(value.dtype in (None, dtypes.string) for value in values):
        return False
    return all(
        one.dtype == other.dtype
        and one.shape is not None
        and is_static(one.shape)
        and equal_shapes(one.shape, other.shape)
        for one, other in zip(values, others, strict=True)
    )
