"""SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss, which exported perplexity computations contain."""

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value


def softmax_cross_entropy(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Returns the loss and the log-probabilities, from one log_softmax: the logarithm of a probability of 0 would be
    infinite."""
    known = b.add("log_softmax", node.input(0), axis=1)
    loss = _loss(node, b, known)
    return None if loss is None else [loss, known][: len(node.outputs)]


def negative_log_likelihood(node: OnnxNode, b: Builder) -> Value | None:
    return _loss(node, b, node.input(0))


def _loss(node: OnnxNode, b: Builder, known: Value) -> Value | None:
    """Minus what `known` [N, C, *] has at the classes [N, *], weighted; `ignore_index` has the weight 0."""
    rank, dtype, weights = node.rank(1), node.dtype(), node.optional(2)
    if rank is None or dtype is None:
        return None
    reduction = node.choice("reduction", "mean", "none", "sum", "mean")
    classes = b.add("cast", node.input(1), to=dtypes.i64)
    kept = None
    if node.has("ignore_index"):
        kept = b.add("ne", classes, b.scalar(node.integer("ignore_index", 0), dtypes.i64))
        classes = b.add("where", kept, classes, b.scalar(0, dtypes.i64))
    at = b.integers([1])
    hit = b.add("squeeze", b.add("gather_elements", known, b.add("unsqueeze", classes, at), axis=1), at)
    each, share = b.add("neg", hit), None
    if weights is not None:
        share = b.add("gather", weights, classes, axis=0)
        each = b.add("mul", each, share)
    if kept is not None:
        none = b.scalar(0, dtype)
        each = b.add("where", kept, each, none)
        share = b.add("cast", kept, to=dtype) if share is None else b.add("where", kept, share, none)
    if reduction == "none":
        return each
    axes = tuple(range(rank))
    if reduction == "mean" and share is None:
        return b.add("reduce_mean", each, axes=axes, keepdims=False)
    total = b.add("reduce_sum", each, axes=axes, keepdims=False)
    if reduction == "sum" or share is None:
        return total
    return b.add("div", total, b.add("reduce_sum", share, axes=axes, keepdims=False))
