"""CDist of com.microsoft: distances between the rows of two matrices.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_METRICS = ("sqeuclidean", "euclidean", "cityblock", "chebyshev")


def cdist(node: OnnxNode, b: Builder) -> Value:
    """CDist(a [M, N], c [K, N]) -> the distances [M, K]."""
    metric = node.text("metric", "sqeuclidean")
    if metric not in _METRICS:
        raise Unsupported(f"attribute 'metric' is {metric!r}; treadle knows {', '.join(_METRICS)}")
    return distances(node.input(0), node.input(1), metric, b)


def distances(a: Value, c: Value, metric: str, b: Builder) -> Value:
    """The distances [M, K] by `metric` between the rows of a [M, N] and of c [K, N].

    Squared Euclidean distances are |a|^2 + |c|^2 - 2 a c. The mean of the rows of c is subtracted from a and c first,
    so that only points far from this mean lose digits.
    """
    if metric in ("sqeuclidean", "euclidean"):
        squares = _squares(a, c, b)
        return b.add("sqrt", squares) if metric == "euclidean" else squares
    apart = b.add("sub", b.add("unsqueeze", a, b.integers([1])), b.add("unsqueeze", c, b.integers([0])))
    op = "reduce_sum" if metric == "cityblock" else "reduce_max"
    return b.add(op, b.add("abs", apart), axes=(2,), keepdims=False)


def _squares(a: Value, c: Value, b: Builder) -> Value:
    middle = b.add("reduce_mean", c, axes=(0,), keepdims=True)
    left, right = b.add("sub", a, middle), b.add("sub", c, middle)
    ours = b.add("reduce_sum", b.add("mul", left, left), axes=(1,), keepdims=True)
    theirs = b.add("reduce_sum", b.add("mul", right, right), axes=(1,), keepdims=False)
    product = b.add("matmul", left, right, transpose_a=False, transpose_b=True)
    twice = b.add("mul", product, b.scalar(-2.0, a.dtype))
    return b.add("max", b.add("add", b.add("add", twice, theirs), ours), b.scalar(0.0, a.dtype))
