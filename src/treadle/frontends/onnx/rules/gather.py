"""Gather, GatherElements, GatherND, ScatterElements, ScatterND, OneHot, TopK, NonZero, Compress, NonMaxSuppression."""

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
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
    return _places(b, node.input(0))


def compress(node: OnnxNode, b: Builder) -> Value:
    """Compress -> the places where the condition is true, gathered; without an axis, of all elements."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0)) if node.has("axis") else 0
    if not node.has("axis"):
        x = b.add("reshape", x, b.integers([-1]))
    places = _places(b, node.input(1))
    return b.add("gather", x, b.add("squeeze", places, b.integers([0])), axis=axis)


def non_max_suppression(node: OnnxNode, b: Builder) -> Value:
    """NonMaxSuppression -> non_max_suppression; no score is too low where no least one is given."""
    most = node.optional(2)
    overlap, least = node.optional(3), node.optional(4)
    operands = [
        node.input(0),
        node.input(1),
        b.integers([0]) if most is None else most,
        b.constant(np.zeros(1, np.float32)) if overlap is None else overlap,
        b.constant(np.full(1, -np.inf, np.float32)) if least is None else least,
    ]
    found = b.add_many("non_max_suppression", operands, 2, center=node.flag("center_point_box", default=False))
    return b.add("counted", *found, axis=0, label="non_max_suppression")


def _places(b: Builder, x: Value) -> Value:
    """Where the elements of x are that are not 0: i64 [rank, n]."""
    return b.add("counted", *b.add_many("non_zero", [x], 2), axis=1, label="non_zero")


def tensor_scatter(node: OnnxNode, b: Builder) -> Value | None:
    """TensorScatter(past, update, starts) -> the past, in which each update replaces what follows its start on `axis`.

    An update that goes beyond the end of the axis continues at its beginning if `mode` is circular.
    """
    past, update, starts = node.input(0), node.input(1), node.optional(2)
    rank, circular = node.rank(), node.choice("mode", "linear", "linear", "circular") == "circular"
    if rank is None or rank < 2 or past.dtype == dtypes.string:
        return None
    axis = node.axis(node.integer("axis", -2))
    if axis == 0:
        raise Fault("attribute 'axis' must not be that of the batch")
    along = b.integers([-1 if place == axis else 1 for place in range(rank)])
    places = b.add("reshape", b.numbers(b.size(update, axis)), along, allowzero=False)
    if starts is not None:
        first = b.add("reshape", starts, b.integers([-1] + [1] * (rank - 1)), allowzero=False)
        places = b.add("add", b.add("cast", first, to=dtypes.i64), places)
    if circular:
        places = b.add("mod", places, b.size(past, axis))
    indices = b.add("expand", places, b.add("shape", update, start=0, end=None))
    return b.add("scatter_elements", past, indices, update, axis=axis, reduction="none")
