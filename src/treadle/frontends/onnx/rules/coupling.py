"""Probabilities of classes from those of all pairs of classes (Wu, Lin and Weng, 2004, second approach).

The probabilities p minimise the sum of (r[j, i] p[i] - r[i, j] p[j])^2, where r[i, j] is the probability of class i
among i and j. This is p.T Q p; each iteration changes one p after the other, and scales all so that their sum is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.op import Array

_LEAST = 1e-7
"""No class of a pair is less probable."""

_MOST_ITERATIONS = 100
_ERROR = 0.005
"""A row is done when no term of Q p differs by more than this, divided by the number of classes, from p.T Q p."""


def pair_probabilities(scores: Value, lines: list[Array], b: Builder) -> Value:
    """1 / (1 + exp(slope score + offset)) for `scores` [rows, pairs] and `lines`, the slopes and offsets of pairs."""
    slopes, offsets = (b.constant(line.astype(_numpy(scores))) for line in lines)
    line = b.add("add", b.add("mul", scores, slopes), offsets)
    bounds = (b.scalar(number, scores.dtype) for number in (_LEAST, 1 - _LEAST))
    return b.add("clip", b.add("sigmoid", b.add("neg", line)), *bounds)


def class_probabilities(found: Value, pairs: list[tuple[int, int]], classes: int, b: Builder) -> Value:
    """The probabilities of classes [rows, classes], of which `found` [rows, pairs] has those of the first class of each
    of `pairs`."""
    first = np.zeros((len(pairs), classes * classes), _numpy(found))
    second = first.copy()
    for number, (i, j) in enumerate(pairs):
        first[number, i * classes + j] = second[number, j * classes + i] = 1
    other = b.add("sub", b.scalar(1, found.dtype), found)
    ratios = b.add("add", _times(found, first, b), _times(other, second, b))
    r = b.add("reshape", ratios, b.integers([-1, classes, classes]), allowzero=False)
    turned = b.add("transpose", r, perm=(0, 2, 1))
    squares = b.add("unsqueeze", b.add("reduce_sum", b.add("mul", r, r), axes=(1,), keepdims=False), b.integers([1]))
    on_diagonal = b.add("mul", squares, b.constant(np.eye(classes, dtype=_numpy(found))))
    q = b.add("sub", on_diagonal, b.add("mul", r, turned))
    start = b.add("expand", b.scalar(1 / classes, found.dtype), b.add("shape", q, start=0, end=2))
    most = b.scalar(max(_MOST_ITERATIONS, classes), dtypes.i64)
    return b.add_loop([most, None, start, q], _iteration(classes, found), 1, 0, padded=False)[0]


def _iteration(classes: int, like: Value) -> Graph:
    """The body of the loop: p [rows, classes] and Q [rows, classes, classes] -> whether a row is not done, p."""
    assert like.dtype is not None, "as_float knows it"
    body = Graph("coupling")
    body.input("iteration", dtypes.i64, ())
    p = body.input("p", like.dtype, ("rows", classes))
    q = body.input("q", like.dtype, ("rows", classes, classes))

    def add(op: str, *inputs: Value, **attrs: Any) -> Value:
        return body.add(op, list(inputs), attrs, name=f"{op}_{len(body.nodes)}").output

    def constant(array: Any) -> Value:
        return body.constant(np.asarray(array, _numpy(like)), "constant")

    def columns(x: Value) -> Value:
        return add("unsqueeze", x, body.constant(np.array([2]), "axes"))

    def total(x: Value) -> Value:
        return add("reduce_sum", x, axes=(1,), keepdims=True)

    product = add("squeeze", add("matmul", q, columns(p)), body.constant(np.array([2]), "axes"))
    whole, one = total(add("mul", p, product)), constant(1)
    error = add("reduce_max", add("abs", add("sub", product, whole)), axes=(1,), keepdims=True)
    active = add("ge", error, constant(_ERROR / classes))
    changed = p
    for number in range(classes):
        only = constant(np.arange(classes) == number)
        row = add("gather", q, body.constant(np.array(number), "class"), axis=1)
        own, diagonal = total(add("mul", product, only)), total(add("mul", row, only))
        step = add("div", add("sub", whole, own), diagonal)
        scale = add("add", step, one)
        grown = add("mul", step, add("add", add("mul", step, diagonal), add("add", own, own)))
        whole = add("div", add("add", whole, grown), add("mul", scale, scale))
        changed = add("div", add("add", changed, add("mul", step, only)), scale)
        product = add("div", add("add", product, add("mul", step, row)), scale)
    some = add("reduce_max", add("cast", active, to=dtypes.i32), axes=(0, 1), keepdims=False)
    again = add("gt", some, body.constant(np.array(0, np.int32), "none"))
    body.outputs = [again, add("where", active, changed, p)]
    return body


def _times(x: Value, matrix: Array, b: Builder) -> Value:
    return b.add("matmul", x, b.constant(matrix), transpose_a=False, transpose_b=False)


def _numpy(value: Value) -> Any:
    assert value.dtype is not None, "as_float knows it"
    return value.dtype.numpy
