"""Operators of ONNX Runtime (com.microsoft) on texts whose padding is taken away: their tokens one after another.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.attention import Heads, Seen, attended, head_count, projections, split_heads
from treadle.frontends.onnx.rules.attention_mask import length
from treadle.frontends.onnx.rules.multi_head import with_bias
from treadle.graph.value import Value


def remove_padding(node: OnnxNode, b: Builder) -> list[Value]:
    """RemovePadding(x [N, length, width], counts [N]) -> the rows of tokens [tokens, width], the places of all rows
    [N, length], those of tokens first, where texts end [N + 1], and the most tokens of one."""
    x, counts = node.input(0), node.input(1)
    is_token = b.add("lt", b.numbers(length(x, b, 1)), b.add("unsqueeze", b.cast(counts, dtypes.i64), b.integers([1])))
    flat = b.add("reshape", is_token, b.integers([-1]), allowzero=False)
    total = b.add("reduce_sum", b.cast(flat, dtypes.i64), axes=(0,), keepdims=True)
    places = _tokens_first(flat, total, b)
    tokens = b.add("slice", places, b.integers([0]), total, b.integers([0]))
    ends = b.add("cumsum", counts, axis=0, exclusive=False, reverse=False)
    return [
        b.add("gather", _rows(x, b), tokens, axis=0),
        b.add("reshape", b.add("cast", places, to=dtypes.i32), b.add("shape", x, start=0, end=2), allowzero=True),
        b.add("concat", b.constant(np.zeros(1, np.int32)), ends, axis=0),
        b.add("reduce_max", counts, axes=(0,), keepdims=True),
    ]


def restore_padding(node: OnnxNode, b: Builder) -> Value:
    """RestorePadding(x [tokens, width], places [N, length]) -> x [N, length, width], 0 where padding is."""
    return _restored(node.input(0), node.input(1), b)


def packed_attention(node: OnnxNode, b: Builder) -> Value:
    """PackedAttention(x [tokens, width], weights, bias, places, ends, added) -> Attention within each text."""
    parts = projections(node, b)
    return _within_texts(node, parts, (3, 4, 5), b)


def packed_multi_head_attention(node: OnnxNode, b: Builder) -> Value:
    """PackedMultiHeadAttention(q, k, v, bias, places, ends, added) -> MultiHeadAttention within each text."""
    parts = [node.input(0), node.optional(1), node.optional(2)]
    if parts[1] is None:
        if node.rank() != 4:
            raise Unsupported("its packed input must have the shape [tokens, heads, 3, size]")
        apart = b.add_many("split", [node.input(0)], 3, axis=2, parts=3)
        parts = [b.add("reshape", each, b.integers([0, -1]), allowzero=False) for each in apart]
    if parts[2] is None:
        raise Fault("its input number 2 is missing")
    whole = [each for each in parts if each is not None]
    biased = [with_bias(node, 3, each, whole[0], at, b) for at, each in enumerate(whole)]
    return _within_texts(node, biased, (4, 5, 6), b)


def _within_texts(node: OnnxNode, parts: list[Value], at: tuple[int, int, int], b: Builder) -> Value:
    """Attention of q, k and v [tokens, width]; `at` has the numbers of the operands places, ends and what is added."""
    places, ends, count = node.input(at[0]), b.cast(node.input(at[1]), dtypes.i64), head_count(node)
    heads = Heads(*(split_heads(_restored(part, places, b), count, b) for part in parts))
    starts, stops = (
        b.add("slice", ends, *(b.integers([n]) for n in bounds)) for bounds in ((0, -1, 0), (1, 1 << 62, 0))
    )
    lengths = b.add("unsqueeze", b.add("sub", stops, starts), b.integers([1, 2, 3]))
    is_token = b.add("lt", b.numbers(length(heads.k, b)), lengths)
    result = attended(node, heads, [node.optional(at[2])], b, seen=Seen(is_token, None))
    return b.add("gather", _rows(result, b), _token_places(parts[0], places, b), axis=0)


def _restored(x: Value, places: Value, b: Builder) -> Value:
    """Rows [tokens, width] put at the first of `places` [N, length], 0 at the others."""
    rows = b.add("unsqueeze", _token_places(x, places, b), b.integers([1]))
    width = b.add("shape", x, start=1, end=2)
    count = b.add("reshape", b.add("size", places), b.integers([1]), allowzero=False)
    nothing = b.add("expand", b.scalar(0, x.dtype), b.add("concat", count, width, axis=0))
    flat = b.add("scatter_nd", nothing, rows, x, reduction="none")
    return b.add(
        "reshape", flat, b.add("concat", b.add("shape", places, start=0, end=2), width, axis=0), allowzero=True
    )


def _token_places(x: Value, places: Value, b: Builder) -> Value:
    """The places of the rows of `x`."""
    flat = b.add("reshape", b.cast(places, dtypes.i64), b.integers([-1]), allowzero=False)
    return b.add("slice", flat, b.integers([0]), b.add("shape", x, start=0, end=1), b.integers([0]))


def _tokens_first(flat: Value, total: Value, b: Builder) -> Value:
    """The places of the `total` tokens among all rows, then those of the padding; `flat` says which rows are tokens."""
    tokens, padding = (
        b.add("cumsum", b.cast(each, dtypes.i64), axis=0, exclusive=True, reverse=False)
        for each in (flat, b.add("not", flat))
    )
    new = b.add("where", flat, tokens, b.add("add", padding, total))
    rows = b.numbers(length(flat, b, 0))
    return b.add("scatter_elements", rows, new, rows, axis=0, reduction="none")


def _rows(x: Value, b: Builder) -> Value:
    """[N, length, width] -> [N length, width]."""
    width = b.add("shape", x, start=2, end=3)
    return b.add("reshape", x, b.add("concat", b.integers([-1]), width, axis=0), allowzero=False)
