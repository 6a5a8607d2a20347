"""Coefficients, labels and final score transforms, shared by the classifiers and regressors of ai.onnx.ml."""

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.op import Array

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
CORE_TRANSFORMS = TRANSFORMS[:3]
"""The transforms that core ops can express."""


def post_transform(node: OnnxNode) -> str:
    """The attribute `post_transform`. Raises Fault for one that is not in the specification."""
    return node.choice("post_transform", "NONE", *TRANSFORMS)


def transformed(scores: Value, how: str, b: Builder) -> Value:
    """`scores` [rows, classes] after `how`, one of CORE_TRANSFORMS."""
    if how == "NONE":
        return scores
    return b.add("sigmoid", scores) if how == "LOGISTIC" else b.add("softmax", scores, axis=1)


def class_labels(node: OnnxNode, integers: str) -> Array:
    """The labels of the classes: the attribute `integers` or `classlabels_strings`.

    Raises Fault unless one is given.
    """
    texts, numbers = node.texts("classlabels_strings"), node.integers(integers)
    if bool(texts) == bool(numbers):
        raise Fault(f"it needs one of the attributes {integers!r} and 'classlabels_strings'")
    return np.array(texts, object) if texts else np.array(numbers, np.int64)


def best_labels(scores: Value, labels: Array, b: Builder) -> Value:
    """For each row of `scores` [rows, classes] the label of the highest, the first of equal ones."""
    best = b.add("argmax", scores, axis=1, keepdims=False, last=False)
    return b.add("gather", b.constant(labels), best, axis=0)


def decided_labels(score: Value, threshold: float, labels: Array, b: Builder) -> Value:
    """labels[1] for each row of `score` [rows, 1] that is above the threshold, labels[0] for the others."""
    above = b.add("cast", b.add("gt", score, b.scalar(threshold, score.dtype)), to=dtypes.i64)
    return b.add("gather", b.constant(labels), b.add("reshape", above, b.integers([-1]), allowzero=False), axis=0)


def both_scores(score: Value, complement: bool, b: Builder) -> Value:
    """[1 - score, score] if `complement`, else [-score, score], of `score` [rows, 1]."""
    other = b.add("sub", b.scalar(1, score.dtype), score) if complement else b.add("neg", score)
    return b.add("concat", other, score, axis=1)


def as_float(x: Value, b: Builder) -> Value:
    """`x` as f32, or as it is if it is f64. Raises Fault if its dtype is not known."""
    if x.dtype is None:
        raise Fault("the element type of its input cannot be told")
    return x if x.dtype == dtypes.f64 else b.cast(x, dtypes.f32)
