"""GroupQueryAttention of ONNX Runtime (com.microsoft): heads that share keys and values, which a cache keeps.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.attention import Heads, attended, repeated
from treadle.frontends.onnx.rules.attention_mask import length
from treadle.frontends.onnx.rules.rotary import rotate
from treadle.graph.value import Value

_SWAPPED = (0, 2, 1, 3)
_REFUSED = {
    11: "head_sink", 12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight", 16: "query_seqlens",
}  # fmt: skip
_TOKENS = 1
"""The axis of tokens before heads are split off."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where tokens stand in the cache, all i64.

    `before`: how many each text [N] has before its new ones. `new`: the places of these [N, tokens]. `all`: the places
    [cache] of the cache that the node gives. `given`: how many the given cache has, a scalar.
    """

    before: Value
    new: Value
    all: Value
    given: Value


def group_query_attention(node: OnnxNode, b: Builder) -> list[Value]:
    """GroupQueryAttention -> the result, and the caches with the new keys and values in the places of their texts."""
    _refuse(node)
    count, groups = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    if count < 1 or groups < 1 or count % groups:
        raise Fault(f"attribute 'kv_num_heads' must divide 'num_heads', got {groups} and {count}")
    q, k, v = _split(node, count, groups, b)
    at = _places(node, q, b)
    if node.flag("do_rotary", default=False):
        q, k = (_turned(node, each, at, b) for each in (q, k))
    q, k, v = (b.add("transpose", each, perm=_SWAPPED) for each in (q, k, v))
    if node.optional(3) is not None and node.optional(4) is not None:
        k, v = (_merged(node.input(index), new, at, groups, b) for index, new in ((3, k), (4, v)))
    heads = Heads(q, *(repeated(each, count // groups, b) for each in (k, v)))
    result = attended(node, heads, [node.optional(10), _mask(node, q, at, b)], b)
    return [result, k, v]


def _refuse(node: OnnxNode) -> None:
    for index, name in _REFUSED.items():
        if node.optional(index) is not None:
            raise Unsupported(f"its input {name!r} (number {index}) is not supported")
    for name in ("k_quant_type", "v_quant_type"):
        if node.text(name, "NONE") != "NONE":
            raise Unsupported(f"attribute {name!r} must be NONE: quantized caches are not supported")
    for name in ("sliding_window_cache", "qk_output"):
        if node.integer(name, 0):
            raise Unsupported(f"attribute {name!r} must be 0")
    if node.integer("smooth_softmax", 0) > 0 or any(node.outputs[3:4]):
        raise Unsupported("attribute 'smooth_softmax' and the result 'output_qk' are not supported")


def _split(node: OnnxNode, count: int, groups: int, b: Builder) -> list[Value]:
    """Queries, keys and values [N, tokens, heads, size], which may come in one tensor."""
    parts = [node.input(0), node.optional(1), node.optional(2)]
    if parts[1] is None:
        dims = node.dims()
        width = dims[-1] if dims else None
        if width is None or width % (count + 2 * groups):
            raise Unsupported("the width of its packed input must be known, and hold all heads")
        size = width // (count + 2 * groups)
        ends = (0, count * size, (count + groups) * size, width)
        parts = [
            b.add("slice", node.input(0), *(b.integers([number]) for number in (start, end, -1)))
            for start, end in pairwise(ends)
        ]
    return [
        b.add("reshape", part, b.integers([0, 0, heads, -1]), allowzero=False)
        for part, heads in zip(parts, (count, groups, groups), strict=True)
    ]


def _places(node: OnnxNode, q: Value, b: Builder) -> _Places:
    lengths = b.add("add", b.add("cast", node.input(5), to=dtypes.i64), b.scalar(1, dtypes.i64))
    lengths = b.add("reshape", lengths, b.integers([-1]), allowzero=False)
    tokens = length(q, b, _TOKENS)
    before = b.add("max", b.add("sub", lengths, tokens), b.scalar(0, dtypes.i64))
    new = b.add("add", b.add("unsqueeze", before, b.integers([1])), b.numbers(tokens))
    past = node.optional(3)
    if past is None:
        return _Places(before, new, b.numbers(tokens), b.scalar(0, dtypes.i64))
    given = length(past, b)
    total = b.as_scalar(b.add("cast", node.input(6), to=dtypes.i64))
    return _Places(before, new, b.numbers(b.add("max", given, total)), given)


def _turned(node: OnnxNode, x: Value, at: _Places, b: Builder) -> Value:
    """Queries or keys turned by the angles of their places."""
    if node.optional(7) is None or node.optional(8) is None:
        raise Fault("its inputs 'cos_cache' and 'sin_cache' are missing, which 'do_rotary' needs")
    table, dims = node.dims(7), b.known.dims(x)
    half, size = (table[-1] if table else None), (dims[-1] if dims else None)
    if half is None or size is None:
        raise Unsupported("the sizes of its heads and of 'cos_cache' must be known")
    given = node.optional(9)
    places = at.new if given is None else given
    cosines, sines = (b.add("gather", node.input(index), places, axis=0) for index in (7, 8))
    width = 0 if 2 * half == size else 2 * half
    return rotate(x, cosines, sines, width, b, interleaved=node.flag("rotary_interleaved", default=False))


def _merged(past: Value, new: Value, at: _Places, groups: int, b: Builder) -> Value:
    """The cache [N, heads, cache, size] with rows of `new` at their places, and those of `past` at the others."""
    tokens = length(new, b)
    both = b.add("concat", past, new, axis=2)
    before = b.add("unsqueeze", at.before, b.integers([1]))
    behind = b.add("sub", at.all, before)
    is_new = b.add("and", b.add("ge", behind, b.scalar(0, dtypes.i64)), b.add("lt", behind, tokens))
    last = b.add("sub", length(both, b), b.scalar(1, dtypes.i64))
    rows = b.add("where", is_new, b.add("add", behind, at.given), b.add("min", at.all, last))
    starts = b.add("mul", b.numbers(b.add("mul", length(new, b, 0), b.scalar(groups, dtypes.i64))), length(both, b))
    starts = b.add("reshape", starts, b.integers([-1, groups, 1]), allowzero=False)
    flat = b.add("reshape", both, b.add("concat", b.integers([-1]), b.add("shape", new, start=3, end=4), axis=0))
    return b.add("gather", flat, b.add("add", starts, b.add("unsqueeze", rows, b.integers([1]))), axis=0)


def _mask(node: OnnxNode, q: Value, at: _Places, b: Builder) -> Value:
    """What excludes keys [N, 1, tokens, cache]: later ones, those before the window, those that no text has.

    `q` is [N, heads, tokens, size].
    """
    if q.dtype is None:
        raise Unsupported("the element type of its inputs must be known")
    own = b.add("unsqueeze", at.new, b.integers([1, 3]))
    if node.flag("causal", default=True):
        allowed = b.add("le", at.all, own)
    else:
        ends = b.add("add", at.before, length(q, b))
        allowed = b.add("lt", at.all, b.add("unsqueeze", ends, b.integers([1, 2, 3])))
    window = node.integer("local_window_size", -1)
    if window > 0:
        first = b.add("sub", own, b.scalar(window, dtypes.i64))
        allowed = b.add("and", allowed, b.add("gt", at.all, first))
    lowest = b.scalar(float(np.finfo(q.dtype.numpy).min), q.dtype)
    return b.add("where", allowed, b.scalar(0, q.dtype), lowest)
