"""GroupQueryAttention of ONNX Runtime (com.microsoft): heads that share keys and values, which a cache keeps.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.attention import Heads, Seen, attended, repeated
from treadle.frontends.onnx.rules.attention_mask import length
from treadle.frontends.onnx.rules.cache import stored, with_room
from treadle.frontends.onnx.rules.rotary import rotate
from treadle.graph.value import Value
from treadle.records import dataclass

_SWAPPED = (0, 2, 1, 3)
_REFUSED = {12: "k_scale", 13: "v_scale"}
_TOKENS = 1
"""The axis of tokens before heads are split off."""
_NORM_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class _Places:
    """Where tokens stand in the cache, i64: how many each text [N] has `before` its new ones, the places of these
    [N, tokens], and how many it has after the step [N]."""

    before: Value
    new: Value
    ends: Value


def group_query_attention(node: OnnxNode, b: Builder) -> list[Value]:
    """GroupQueryAttention -> the result, and the caches with the new keys and values in the places of their texts."""
    _refuse(node)
    count, groups = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    if count < 1 or groups < 1 or count % groups:
        raise Fault(f"attribute 'kv_num_heads' must divide 'num_heads', got {groups} and {count}")
    q, k, v = _split(node, count, groups, b)
    q, k = (_normalised(node, each, name, b) for each, name in ((q, "q"), (k, "k")))
    at = _places(node, q, b)
    if node.flag("do_rotary", default=False):
        q, k = (_turned(node, each, at, b) for each in (q, k))
    q, k, v = (b.add("transpose", each, perm=_SWAPPED) for each in (q, k, v))
    if node.optional(3) is not None:
        total = b.as_scalar(b.add("cast", node.input(6), to=dtypes.i64))
        rooms = (with_room(node.input(index), total, b, axis=2, rank=4) for index in (3, 4))
        k, v = (stored(room, new, at.before, b) for room, new in zip(rooms, (k, v), strict=True))
    heads = Heads(q, *(repeated(each, count // groups, b) for each in (k, v)))
    seen, sink = _seen(node, k, at, b), _sink(node, count, q, b)
    result = attended(node, heads, [_bias(node, k, b)], b, seen=seen, sink=sink)
    return [result, k, v]


def _refuse(node: OnnxNode) -> None:
    for index, name in _REFUSED.items():
        if node.optional(index) is not None:
            raise Unsupported(f"its input {name!r} (number {index}) is not supported")
    for name in ("k_quant_type", "v_quant_type"):
        if node.text(name, "NONE") != "NONE":
            raise Unsupported(f"attribute {name!r} must be NONE: quantized caches are not supported")
    if node.integer("sliding_window_cache", 0):
        raise Unsupported("attribute 'sliding_window_cache' must be 0")
    if any(node.outputs[3:4]):
        raise Unsupported("its result 'output_qk' is not computed apart")


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


def _normalised(node: OnnxNode, x: Value, name: str, b: Builder) -> Value:
    """Queries or keys (`name` is "q" or "k") with each head scaled to a root mean square of its weights, if it has
    any."""
    index = 14 if name == "q" else 15
    if node.optional(index) is None:
        return x
    epsilon = node.number(f"{name}_norm_epsilon", node.number("qk_norm_epsilon", _NORM_EPSILON))
    return b.add("rms_norm", x, node.input(index), axis=-1, epsilon=epsilon)


def _places(node: OnnxNode, q: Value, b: Builder) -> _Places:
    """`query_seqlens` says how many rows of a text are tokens; without it, all that the text has room for."""
    lengths = b.add("add", b.add("cast", node.input(5), to=dtypes.i64), b.scalar(1, dtypes.i64))
    lengths = b.add("reshape", lengths, b.integers([-1]), allowzero=False)
    tokens, valid = length(q, b, _TOKENS), node.optional(16)
    given = b.cast(tokens if valid is None else valid, dtypes.i64)
    before = b.add("max", b.add("sub", lengths, given), b.scalar(0, dtypes.i64))
    return _Places(before, b.add("add", b.add("unsqueeze", before, b.integers([1])), b.numbers(tokens)), lengths)


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


def _seen(node: OnnxNode, k: Value, at: _Places, b: Builder) -> Seen:
    """Which keys of `k` [N, heads, cache, size] a query sees: none that are later, before the window, or of no
    token."""
    keys, own = b.numbers(length(k, b)), b.add("unsqueeze", at.new, b.integers([1, 3]))
    if node.flag("causal", default=True):
        seen = b.add("le", keys, own)
    else:
        seen = b.add("lt", keys, b.add("unsqueeze", at.ends, b.integers([1, 2, 3])))
    window = node.integer("local_window_size", -1)
    if window > 0:
        seen = b.add("and", seen, b.add("gt", keys, b.add("sub", own, b.scalar(window, dtypes.i64))))
    if node.optional(3) is None:
        return Seen(seen, None)
    last = b.add("reduce_max", own, axes=(2,), keepdims=True)
    return Seen(seen, b.add("le", b.add("unsqueeze", keys, b.integers([1])), last))


def _bias(node: OnnxNode, k: Value, b: Builder) -> Value | None:
    """What is added to scores; a cache may have room for more keys than the tokens it is for."""
    bias = node.optional(10)
    if bias is None or node.optional(3) is None:
        return bias
    return with_room(bias, length(k, b), b, axis=3, rank=4)


def _sink(node: OnnxNode, count: int, q: Value, b: Builder) -> Value | None:
    """The score of each head [1, heads, 1, 1] that takes its part of the weights for nothing; None if there is none."""
    given = node.optional(11)
    if given is not None:
        return b.add("reshape", given, b.integers([1, count, 1, 1]), allowzero=False)
    if node.integer("smooth_softmax", 0) <= 0:
        return None
    if q.dtype is None:
        raise Unsupported("the element type of its inputs must be known")
    return b.constant(np.zeros((1, count, 1, 1), q.dtype.numpy))
