"""Unique of ai.onnx and of com.microsoft."""

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.unique_groups import UNSORTED, unique_groups
from treadle.graph.value import Value


def unique(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Unique -> top_k, non_zero and gathers; along an axis of several by the onnx package's reference."""
    x = node.input(0)
    if x.dtype in UNSORTED or (node.has("axis") and node.rank() != 1):
        return None
    return unique_groups(b, x, keep_order=not node.flag("sorted", default=True), nans_are_equal=True)


def in_order(node: OnnxNode, b: Builder) -> list[Value] | None:
    """com.microsoft.Unique(x [n]) -> what there is, in the order of x; which of it each element is; how often."""
    x = node.input(0)
    if x.dtype in UNSORTED:
        return None
    found, _, inverse, counts = unique_groups(b, x, keep_order=True, nans_are_equal=True)
    return [found, inverse, counts]
