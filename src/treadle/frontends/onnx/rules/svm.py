"""SVMRegressor and SVMClassifier of ai.onnx.ml: products with all support vectors at once."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.coupling import class_probabilities, pair_probabilities
from treadle.frontends.onnx.rules.distance import distances
from treadle.frontends.onnx.rules.scores import as_float, best_labels, both_scores, class_labels, post_transform
from treadle.graph.value import Value
from treadle.ops.op import Array


def svm_regressor(node: OnnxNode, b: Builder) -> Value | None:
    """x [rows, features] -> the kernels of x and all support vectors, times their coefficients, plus rho [rows, 1].

    Without support vectors the coefficients are one vector. With `one_class` the result is its sign, -1 for 0.
    """
    if post_transform(node) != "NONE" or node.rank() != 2:
        return None
    coefficients, count = _floats(node, "coefficients"), node.integer("n_supports", 0)
    x = as_float(node.input(0), b)
    if count > 0:
        kernels = _kernels(node, x, _vectors(node, "support_vectors", count), b)
        score = _product(kernels, _vectors(node, "coefficients", count).reshape(count, 1), b)
    else:
        score = _kernels(node, x, coefficients.reshape(1, -1), b)
    score = b.add("add", score, _constant(_floats(node, "rho")[:1], x, b))
    if node.flag("one_class", default=False):
        positive = b.add("gt", score, b.scalar(0, x.dtype))
        score = b.add("where", positive, b.scalar(1, x.dtype), b.scalar(-1, x.dtype))
    return b.cast(score, dtypes.f32)


def svm_classifier(node: OnnxNode, b: Builder) -> list[Value] | None:
    """x [rows, features] -> labels [rows], and the scores of all pairs of classes [rows, pairs]; for two classes
    [-score, score]. With `prob_a` and `prob_b` the probabilities [rows, classes].

    A pair's score above 0 is a vote for its first class. None for forms that are left to the reference: weights without
    support vectors, and transformed scores.
    """
    labels = class_labels(node, "classlabels_ints")
    counts = node.integers("vectors_per_class") or ()
    classes, total = len(labels), sum(counts)
    coefficients = _floats(node, "coefficients")
    slopes = node.floats("prob_a")
    has_slopes = slopes is not None and len(slopes) > 0
    all_positive = classes == 2 and coefficients.min(initial=np.inf) >= 0 and not has_slopes
    if post_transform(node) != "NONE" or node.rank() != 2 or total < 1 or classes < 2 or all_positive:
        return None
    if len(counts) != classes or min(counts) < 0:
        raise Fault(f"attribute 'vectors_per_class' must have {classes} numbers, got {list(counts)}")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    rho = _floats(node, "rho")
    if len(rho) != len(pairs):
        raise Fault(f"attribute 'rho' must have {len(pairs)} numbers for {classes} classes, got {len(rho)}")
    x = as_float(node.input(0), b)
    kernels = _kernels(node, x, _vectors(node, "support_vectors", total), b)
    weights = _pair_weights(_vectors(node, "coefficients", total), counts, pairs)
    scores = b.add("add", _product(kernels, weights, b), _constant(rho, x, b))
    votes = _votes(scores, classes, pairs, b)
    if has_slopes:
        found = pair_probabilities(scores, [_of_pairs(node, name, len(pairs)) for name in ("prob_a", "prob_b")], b)
        return [best_labels(votes, labels, b), b.cast(class_probabilities(found, pairs, classes, b), dtypes.f32)]
    shown = both_scores(scores, complement=False, b=b) if classes == 2 else scores
    return [best_labels(votes, labels, b), b.cast(shown, dtypes.f32)]


def _of_pairs(node: OnnxNode, name: str, count: int) -> Array:
    """The attribute `name`, which has a number for each pair of classes."""
    numbers = _floats(node, name)
    if len(numbers) != count:
        raise Fault(f"attribute {name!r} must have {count} numbers, one for each pair of classes, got {len(numbers)}")
    return numbers


def _pair_weights(coefficients: Array, counts: tuple[int, ...], pairs: list[tuple[int, int]]) -> Array:
    """The weight of each support vector for each pair of classes [vectors, pairs]. The support vectors of a class have
    one row of coefficients for each other class."""
    if len(coefficients) < len(counts) - 1:
        raise Fault(f"it needs {len(counts) - 1} rows of coefficients, got {len(coefficients)}")
    ends = np.cumsum((0, *counts))
    weights = np.zeros((int(ends[-1]), len(pairs)), coefficients.dtype)
    for number, (i, j) in enumerate(pairs):
        weights[ends[i] : ends[i + 1], number] = coefficients[j - 1, ends[i] : ends[i + 1]]
        weights[ends[j] : ends[j + 1], number] = coefficients[i, ends[j] : ends[j + 1]]
    return weights


def _votes(scores: Value, classes: int, pairs: list[tuple[int, int]], b: Builder) -> Value:
    """The votes for each class [rows, classes], as f32."""
    first = b.add("cast", b.add("gt", scores, b.scalar(0, scores.dtype)), to=dtypes.f32)
    moved = np.zeros((len(pairs), classes), np.float32)
    otherwise = np.zeros(classes, np.float32)
    for number, (i, j) in enumerate(pairs):
        moved[number, [i, j]] = 1, -1
        otherwise[j] += 1
    return b.add("add", _product(first, moved, b), b.constant(otherwise))


def _kernels(node: OnnxNode, x: Value, vectors: Array, b: Builder) -> Value:
    """The kernel function of x [rows, features] and each of `vectors` [n, features]: [rows, n]."""
    kind = node.choice("kernel_type", "LINEAR", "LINEAR", "POLY", "RBF", "SIGMOID")
    stated = node.floats("kernel_params")
    gamma, offset, degree = (0.0, 0.0, 0.0) if stated is None or len(stated) < 3 else map(float, stated[:3])
    if kind == "RBF":
        apart = distances(x, _constant(vectors, x, b), "sqeuclidean", b)
        return b.add("exp", b.add("mul", apart, b.scalar(-gamma, x.dtype)))
    product = _product(x, vectors.T, b)
    if kind == "LINEAR":
        return product
    line = b.add("add", b.add("mul", product, b.scalar(gamma, x.dtype)), b.scalar(offset, x.dtype))
    return b.add("tanh", line) if kind == "SIGMOID" else b.add("pow", line, b.scalar(degree, x.dtype))


def _product(x: Value, matrix: Array, b: Builder) -> Value:
    return b.add("matmul", x, _constant(matrix, x, b), transpose_a=False, transpose_b=False)


def _constant(array: Array, like: Value, b: Builder) -> Value:
    assert like.dtype is not None, "as_float knows it"
    return b.constant(np.ascontiguousarray(array, like.dtype.numpy))


def _floats(node: OnnxNode, name: str) -> Array:
    """The attribute `name`. Raises Fault if it has no numbers."""
    found = node.floats(name)
    if found is None or not len(found):
        raise Fault(f"it needs the attribute {name!r}")
    return found


def _vectors(node: OnnxNode, name: str, count: int) -> Array:
    """The attribute `name` as a matrix: support vectors [count, features], or coefficients [rows, count]."""
    numbers = _floats(node, name)
    if len(numbers) % count:
        raise Fault(f"the {len(numbers)} numbers of attribute {name!r} cannot be divided among {count} support vectors")
    return numbers.reshape(count, -1) if name == "support_vectors" else numbers.reshape(-1, count)
