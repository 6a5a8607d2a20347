"""Gather, GatherElements, GatherND, ScatterElements, ScatterND, OneHot, TopK, NonZero."""

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_REDUCTIONS = ("none", "add", "mul", "min", "max")


def gather(node: OnnxNode, b: Builder) -> Value:
    return b.add("gather", node.input(0), node.input(1), axis=node.axis(node.integer("axis", 0)))


def gather_elements(node: OnnxNode, b: Builder) -> Value:
    return b.add("gather_elements", node.input(0), node.input(1), axis=node.axis(node.integer("axis", 0)))


def gather_nd(node: OnnxNode, b: Builder) -> Value:
    return b.add("gather_nd", node.input(0), node.input(1), batch_dims=node.integer("batch_dims", 0))


def scatter_elements(node: OnnxNode, b: Builder) -> Value:
    """ScatterElements, and Scatter, as it was called before opset 11."""
    return b.add(
        "scatter_elements",
        node.input(0),
        node.input(1),
        node.input(2),
        axis=node.axis(node.integer("axis", 0)),
        reduction=node.choice("reduction", "none", *_REDUCTIONS),
    )


def scatter_nd(node: OnnxNode, b: Builder) -> Value:
    reduction = node.choice("reduction", "none", *_REDUCTIONS)
    return b.add("scatter_nd", node.input(0), node.input(1), node.input(2), reduction=reduction)


def one_hot(node: OnnxNode, b: Builder) -> Value:
    """OneHot -> one_hot; indices and depth may be of any number type, and are made i64."""
    indices, depth = node.input(0), node.input(1)
    if indices.dtype != dtypes.i64:
        indices = b.add("cast", indices, to=dtypes.i64)
    if depth.dtype != dtypes.i64:
        depth = b.add("cast", depth, to=dtypes.i64)
    return b.add("one_hot", indices, depth, node.input(2), axis=node.integer("axis", -1))


def top_k(node: OnnxNode, b: Builder) -> list[Value]:
    """TopK -> top_k; before opset 10 k is an attribute."""
    k = b.integers([node.integer("k", 0)]) if node.version < 10 else node.input(1)
    return b.add_many(
        "top_k",
        [node.input(0), k],
        2,
        axis=node.axis(node.integer("axis", -1)),
        largest=node.flag("largest", default=True),
        sorted=node.flag("sorted", default=True),
    )


def non_zero(node: OnnxNode, b: Builder) -> Value:
    return b.add("non_zero", node.input(0))
