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


def is_all_finite(node: OnnxNode, b: Builder) -> Value:
    """IsAllFinite(tensors) -> whether none has an infinity or NaN; attributes look for one of them alone."""
    only_nan, only_inf = (node.flag(name, default=False) for name in ("isnan_only", "isinf_only"))
    if only_nan and only_inf:
        raise Fault("attributes 'isnan_only' and 'isinf_only' must not both be 1")
    found = []
    for x in node.inputs:
        if x is None:
            raise Fault("its inputs must all be there")
        kinds = [] if only_inf else [b.add("isnan", x)]
        if not only_nan:
            kinds.append(b.add("isinf", x))
        bad = kinds[0] if len(kinds) == 1 else b.add("or", *kinds)
        flat = b.add("reshape", b.add("cast", bad, to=dtypes.i32), b.integers([-1]), allowzero=False)
        found.append(b.add("reduce_sum", flat, axes=(0,), keepdims=True))
    total = found[0] if len(found) == 1 else b.add("concat", *found, axis=0)
    return b.add("eq", b.add("reduce_sum", total, axes=(0,), keepdims=False), b.scalar(0, dtypes.i32))


def sum_of_bytes(node: OnnxNode, b: Builder) -> Value:
    """ReduceSumInteger(x) -> reduce_sum in i32."""
    axes = node.axes(node.integers("axes") or ())
    wide = b.add("cast", node.input(0), to=dtypes.i32)
    return b.add("reduce_sum", wide, axes=axes, keepdims=node.flag("keepdims", default=True))


def torch_embedding(node: OnnxNode, b: Builder) -> Value:
    """TorchEmbedding(weights, indices) -> gather; what else it takes is for training."""
    return b.add("gather", node.input(0), node.input(1), axis=0)


def complex_product(conjugated: bool) -> Rule:
    """ComplexMul(a, c), or ComplexMulConj, which conjugates c: real and imaginary parts are the last axis."""

    def rule(node: OnnxNode, b: Builder) -> Value:
        (x, y), (u, v) = (b.add_many("split", [node.input(index)], 2, axis=-1, parts=2) for index in range(2))
        first, second = ("add", "sub") if conjugated else ("sub", "add")
        real = b.add(first, b.add("mul", x, u), b.add("mul", y, v))
        imaginary = b.add(second, b.add("mul", y, u), b.add("mul", x, v))
        return b.add("concat", real, imaginary, axis=-1)

    return rule


def sample(node: OnnxNode, b: Builder) -> Value:
    """SampleOp(x) -> x."""
    return b.add("identity", node.input(0))


def integer_product(node: OnnxNode, b: Builder) -> Value:
    """MatMulInteger16(a, c) -> the product in i32."""
    sides = [b.add("cast", node.input(index), to=dtypes.i32) for index in range(2)]
    return b.add("matmul", *sides, transpose_a=False, transpose_b=False)


def unfold(node: OnnxNode, b: Builder) -> Value:
    """UnfoldTensor(x) -> all slices of `size` elements along an axis, `step` apart, as a last axis."""
    size, step, rank = node.integer("size", 0), node.integer("step", 1), node.rank()
    if rank is None:
        raise Unsupported("the rank of its input must be known")
    axis = node.axis(node.integer("dim", -1))
    if size < 1 or step < 1:
        raise Fault(f"attributes 'size' and 'step' must be 1 or more, got {size} and {step}")
    length = b.size(node.input(0), axis)
    space = b.add("sub", length, b.scalar(size - 1, dtypes.i64))
    starts = b.add("range", b.scalar(0, dtypes.i64), space, b.scalar(step, dtypes.i64))
    places = b.add("add", b.add("unsqueeze", starts, b.integers([1])), b.constant(np.arange(size)))
    windows = b.add("gather", node.input(0), places, axis=axis)
    return b.add("transpose", windows, perm=(*range(axis + 1), *range(axis + 2, rank + 1), axis + 1))
