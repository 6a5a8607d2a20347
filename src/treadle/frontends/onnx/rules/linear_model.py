"""LinearClassifier and LinearRegressor of ai.onnx.ml."""

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.scores import (
    CORE_TRANSFORMS,
    as_float,
    best_labels,
    both_scores,
    class_labels,
    decided_labels,
    post_transform,
    transformed,
)
from treadle.graph.value import Value


def linear_regressor(node: OnnxNode, b: Builder) -> Value | None:
    """x [rows, features] -> x coefficients + intercepts [rows, targets]."""
    if post_transform(node) != "NONE" or node.rank() != 2:
        return None
    return b.cast(_scores(node, node.integer("targets", 1), b), dtypes.f32)


def linear_classifier(node: OnnxNode, b: Builder) -> list[Value] | None:
    """x [rows, features] -> labels [rows], scores [rows, classes].

    One row of coefficients for two classes gives the score of the second class (`both_scores`, as ONNX Runtime has it).
    """
    labels, how = class_labels(node, "classlabels_ints"), post_transform(node)
    intercepts = node.floats("intercepts")
    classes = len(labels) if intercepts is None else len(intercepts)
    if node.rank() != 2:
        return None
    if classes == len(labels) and classes > 1 and how in CORE_TRANSFORMS:
        scores = _scores(node, classes, b)
        return [best_labels(scores, labels, b), b.cast(transformed(scores, how, b), dtypes.f32)]
    if classes == 1 and len(labels) == 2 and how in ("NONE", "LOGISTIC"):
        score = _scores(node, 1, b)
        scores = transformed(both_scores(score, complement=how == "NONE", b=b), how, b)
        return [decided_labels(score, 0, labels, b), b.cast(scores, dtypes.f32)]
    return None


def _scores(node: OnnxNode, count: int, b: Builder) -> Value:
    """x coefficients + intercepts: `count` scores a row. Raises Fault if there are not as many of them."""
    coefficients, intercepts = node.floats("coefficients"), node.floats("intercepts")
    if coefficients is None or count < 1 or len(coefficients) % count:
        given = 0 if coefficients is None else len(coefficients)
        raise Fault(f"its {given} coefficients cannot be divided among {count} results")
    if intercepts is not None and len(intercepts) != count:
        raise Fault(f"it has {len(intercepts)} intercepts for {count} results")
    x = as_float(node.input(0), b)
    assert x.dtype is not None
    weights = coefficients.astype(x.dtype.numpy).reshape(count, -1).T.copy()
    scores = b.add("matmul", x, b.constant(weights), transpose_a=False, transpose_b=False)
    return scores if intercepts is None else b.add("add", scores, b.constant(intercepts.astype(x.dtype.numpy)))
