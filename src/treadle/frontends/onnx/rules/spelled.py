"""Operators of ONNX Runtime (com.microsoft) that are those of ai.onnx in another form.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.rule import Rule
from treadle.frontends.onnx.rules.softmax import over_matrix
from treadle.graph.value import Value


def required(rule: Rule, what: str) -> Rule:
    """`rule`, but it raises Unsupported with the message `what` instead of leaving the node to the reference."""

    def strict(node: OnnxNode, b: Builder) -> Value | Sequence[Value | None]:
        found = rule(node, b)
        if found is None:
            raise Unsupported(what)
        return found

    return strict


def pad(node: OnnxNode, b: Builder) -> Value:
    """Pad(data, pads, value) -> pad; `value` may have one dimension."""
    mode = node.choice("mode", "constant", "constant", "reflect", "edge", "wrap")
    value = node.optional(2)
    filled = None if value is None else b.as_scalar(value)
    pads = b.add("reshape", node.input(1), b.integers([-1]), allowzero=False)
    return b.add("pad", node.input(0), pads, filled, None, mode=mode)


def range_(node: OnnxNode, b: Builder) -> Value:
    """Range(start, limit, delta) -> range; operands may have one dimension, and delta is 1 where it is absent."""
    step = node.optional(2)
    given = [node.input(0), node.input(1), b.scalar(1, node.dtype()) if step is None else step]
    return b.add("range", *map(b.as_scalar, given))


def expand_dims(node: OnnxNode, b: Builder) -> Value:
    """ExpandDims(x, axis) -> unsqueeze."""
    axes = node.array(1)
    if axes is None:
        raise Unsupported("its axis must be a constant")
    return b.add("unsqueeze", node.input(0), b.integers([int(axis) for axis in axes.reshape(-1)]))


def bias_softmax(node: OnnxNode, b: Builder) -> Value:
    """BiasSoftmax(data, bias) -> softmax(data + bias) over all axes from `axis` on.

    The bias broadcasts to the data: along the axes before `axis` with is_inner_broadcast 0.
    """
    rank, bias_rank = node.rank(), node.rank(1)
    if rank is None or bias_rank is None:
        raise Unsupported("the ranks of its inputs must be known")
    axis, bias = node.axis(node.integer("axis", 1)), node.input(1)
    if bias_rank != rank and node.flag("is_inner_broadcast", default=False):
        raise Unsupported("its bias must have the rank of its data where attribute 'is_inner_broadcast' is 1")
    total = b.add("add", node.input(0), bias)
    return b.add("softmax", total, axis=axis) if axis == rank - 1 else over_matrix("softmax", total, axis, b)


def ngram_repeat_block(node: OnnxNode, b: Builder) -> Value:
    """NGramRepeatBlock(ids [batch, length], scores [batch, vocabulary]) -> the scores, minus infinity for each token
    that would complete a sequence of `ngram_size` tokens that is in the ids already."""
    size, dims = node.integer("ngram_size", 0), node.dims()
    if size < 1:
        raise Fault(f"attribute 'ngram_size' must be 1 or more, got {size}")
    length = None if dims is None or len(dims) != 2 else dims[1]
    if length is not None and length < size:
        return b.add("identity", node.input(1))
    ids, scores = node.input(0), node.input(1)
    following = _columns(ids, size - 1, None, b)
    repeated = b.add("eq", following, following)
    for place in range(size - 1):
        earlier = _columns(ids, place, place - size + 1, b)
        last = _columns(ids, place - size + 1, place - size + 2 or None, b)
        repeated = b.add("and", repeated, b.add("eq", earlier, last))
    blocked, kept = b.scalar(-np.inf, dtypes.f32), b.scalar(np.inf, dtypes.f32)
    limits = b.add("where", repeated, blocked, kept)
    return b.add("scatter_elements", scores, following, limits, axis=1, reduction="min")


def _columns(x: Value, start: int, end: int | None, b: Builder) -> Value:
    """Columns of a matrix, counted from the end where negative."""
    stop = np.iinfo(np.int64).max if end is None else end
    return b.add("slice", x, b.integers([start]), b.integers([int(stop)]), b.integers([1]), None)
