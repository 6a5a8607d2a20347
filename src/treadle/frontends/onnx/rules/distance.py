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
    """CDist(a [M, N], c [K, N]) -> the distances [M, K].

    Differences are taken number by number: |a|^2 + |c|^2 - 2 a c loses digits of points that are near each other.
    """
    metric = node.text("metric", "sqeuclidean")
    if metric not in _METRICS:
        raise Unsupported(f"attribute 'metric' is {metric!r}; treadle knows {', '.join(_METRICS)}")
    return distances(node.input(0), node.input(1), metric, b)


def distances(a: Value, c: Value, metric: str, b: Builder) -> Value:
    """The distances [M, K] by `metric` between the rows of a [M, N] and of c [K, N]."""
    apart = b.add("sub", b.add("unsqueeze", a, b.integers([1])), b.add("unsqueeze", c, b.integers([0])))
    if metric in ("cityblock", "chebyshev"):
        op = "reduce_sum" if metric == "cityblock" else "reduce_max"
        return b.add(op, b.add("abs", apart), axes=(2,), keepdims=False)
    squares = b.add("reduce_sum", b.add("mul", apart, apart), axes=(2,), keepdims=False)
    return b.add("sqrt", squares) if metric == "euclidean" else squares
