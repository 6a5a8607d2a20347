"""Attention and QAttention of ONNX Runtime (com.microsoft) as products, a mask and a softmax, which
a pass fuses.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules import attention_mask
from treadle.frontends.onnx.rules.quantized import Steps, scaled_product
from treadle.graph.value import Value
from treadle.records import dataclass

_SWAPPED = (0, 2, 1, 3)
"""[N, tokens, heads, size] <-> [N, heads, tokens, size]."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys and values [N, heads, tokens, size], the latter two of past tokens too."""

    q: Value
    k: Value
    v: Value


@dataclass(frozen=True, slots=True)
class Seen:
    """Which keys count where a buffer has room for more, bool.

    `by_queries` [N, 1, tokens, keys]: those that each query sees. `at_all` [N, 1, keys, 1]: those that a query may see;
    the memory of all others may hold anything. None: all.
    """

    by_queries: Value
    at_all: Value | None


def attention(node: OnnxNode, b: Builder) -> list[Value | None]:
    """Attention(x, weights, bias, mask, past, attention_bias) -> heads attend after one projection to q, k and v."""
    _refuse(node, 6, "past_sequence_length")
    return _self_attention(node, projections(node, b), (3, 4, 5), b)


def projections(node: OnnxNode, b: Builder) -> list[Value]:
    """q, k and v: operand 0 times the columns of operand 1, plus those of operand 2."""
    return [_projected(node, part, b) for part in _widths(node)]


def quantized_attention(node: OnnxNode, b: Builder) -> list[Value | None]:
    """QAttention(x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero, past): the same after a projection of 8-bit
    numbers."""
    x = Steps(node.input(0), node.input(3), node.optional(6))
    projected = []
    for part in _widths(node):
        scale, zero = (node.optional(index) and _part(node, index, part, b) for index in (4, 7))
        assert scale is not None, "the schema requires it"
        weights = Steps(columns(node, 1, part, b), scale, zero)
        projected.append(scaled_product(x, weights, columns(node, 2, part, b), b))
    return _self_attention(node, projected, (5, 8, 9), b)


def _part(node: OnnxNode, index: int, part: slice, b: Builder) -> Value:
    """Operand `index`, which holds one number, or one a column: those of the columns `part`."""
    dims = node.dims(index)
    if dims is None or None in dims:
        raise Unsupported(f"the shape of its input number {index} must be known")
    return node.input(index) if dims in ((), (1,)) else columns(node, index, part, b)


def _self_attention(node: OnnxNode, parts: Sequence[Value], at: tuple[int, int, int], b: Builder) -> list[Value | None]:
    """What heads give for q, k and v [N, tokens, width], and the past with what is new.

    `at` has the numbers of the operands mask, past and what is added to the scores.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.flag(name, default=False):
            raise Unsupported(f"attribute {name!r} must be 0")
    mask_at, past_at, added_at = at
    count = head_count(node)
    projected = [split_heads(part, count, b) for part in parts]
    past = node.optional(past_at)
    heads = Heads(*projected)
    if past is not None:
        old = [b.add("squeeze", half, b.integers([0])) for half in b.add_many("split", [past], 2, axis=0, parts=2)]
        heads = Heads(heads.q, *(b.add("concat", *both, axis=2) for both in zip(old, projected[1:], strict=True)))
    mask = attention_mask.of(node, mask_at, heads.q, heads.k, b)
    result = attended(node, heads, [mask, node.optional(added_at)], b)
    if not any(node.outputs[1:2]):
        return [result, None]
    present = [b.add("unsqueeze", each, b.integers([0])) for each in (heads.k, heads.v)]
    return [result, b.add("concat", *present, axis=0)]


def head_count(node: OnnxNode) -> int:
    count = node.integer("num_heads", 0)
    if count < 1:
        raise Fault(f"attribute 'num_heads' must be 1 or more, got {count}")
    return count


def _refuse(node: OnnxNode, index: int, name: str) -> None:
    if node.optional(index) is not None:
        raise Unsupported(f"its input {name!r} (number {index}) is for buffers that past and present share")


def _widths(node: OnnxNode) -> list[slice]:
    """The columns of the weights that make q, k and v."""
    dims = node.dims(1)
    width = None if dims is None or len(dims) != 2 else dims[1]
    if width is None:
        raise Unsupported("the shape of its weights must be known")
    sizes = node.integers("qkv_hidden_sizes") or (width // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != width:
        raise Fault(f"attribute 'qkv_hidden_sizes' {list(sizes)} must be 3 numbers whose sum is {width}")
    first, second = sizes[0], sizes[0] + sizes[1]
    return [slice(0, first), slice(first, second), slice(second, width)]


def _projected(node: OnnxNode, part: slice, b: Builder) -> Value:
    """x times the columns `part` of the weights, plus their bias."""
    product = b.add("matmul", node.input(0), columns(node, 1, part, b), transpose_a=False, transpose_b=False)
    return product if node.optional(2) is None else b.add("add", product, columns(node, 2, part, b))


def columns(node: OnnxNode, index: int, part: slice, b: Builder) -> Value:
    known = node.array(index)
    if known is not None:
        return b.constant(np.ascontiguousarray(known[..., part]))
    bounds = [b.integers([number]) for number in (part.start, part.stop, -1)]
    return b.add("slice", node.input(index), *bounds)


def split_heads(x: Value, count: int, b: Builder) -> Value:
    """[N, tokens, width] -> [N, heads, tokens, size]."""
    apart = b.add("reshape", x, b.integers([0, 0, count, -1]), allowzero=False)
    return b.add("transpose", apart, perm=_SWAPPED)


def attended(
    node: OnnxNode,
    heads: Heads,
    added: Sequence[Value | None],
    b: Builder,
    *,
    seen: Seen | None = None,
    sink: Value | None = None,
) -> Value:
    """softmax(scale q k + added) v [N, tokens, width]; `seen` and `sink` as mixed() takes them."""
    return joined(mixed(node, heads, added, b, seen=seen, sink=sink), b)


def mixed(
    node: OnnxNode,
    heads: Heads,
    added: Sequence[Value | None],
    b: Builder,
    *,
    seen: Seen | None = None,
    sink: Value | None = None,
) -> Value:
    """softmax(scale q k, capped where `softcap` is given, + added) v [N, heads, tokens, size].

    A query attends to the keys that are `seen` alone. `sink` [1, heads, 1, 1] is the score of one more key, whose value
    is 0.
    """
    scores = b.add("matmul", heads.q, heads.k, transpose_a=False, transpose_b=True)
    scores = b.add("mul", scores, scale_of(node, heads.q, b))
    cap = node.number("softcap", 0.0)
    if cap:
        scores = b.add("tanh", b.add("div", scores, b.scalar(cap, scores.dtype)))
        scores = b.add("mul", scores, b.scalar(cap, scores.dtype))
    for each in added:
        scores = scores if each is None else b.add("add", scores, each)
    values = heads.v
    if seen is not None:
        if scores.dtype is None:
            raise Unsupported("the element type of its inputs must be known")
        lowest = b.scalar(float(np.finfo(scores.dtype.numpy).min), scores.dtype)
        scores = b.add("where", seen.by_queries, scores, lowest)
        if seen.at_all is not None:
            values = b.add("where", seen.at_all, values, b.scalar(0, values.dtype), unseen=True)
    if sink is None:
        weights = b.add("softmax", scores, axis=-1)
    else:
        shape = b.add("concat", b.add("shape", scores, start=0, end=3), b.integers([1]), axis=0)
        every = b.add("concat", scores, b.add("expand", sink, shape), axis=-1)
        bounds = [b.integers([number]) for number in (0, -1, 3)]
        weights = b.add("slice", b.add("softmax", every, axis=-1), *bounds)
    return b.add("matmul", weights, values, transpose_a=False, transpose_b=False)


def joined(heads: Value, b: Builder) -> Value:
    """[N, heads, tokens, size] -> [N, tokens, width]."""
    return b.add("reshape", b.add("transpose", heads, perm=_SWAPPED), b.integers([0, 0, -1]), allowzero=False)


def repeated(x: Value, times: int, b: Builder) -> Value:
    """Keys or values [N, groups, tokens, size] for each head: as many as share a group, one after another."""
    if times == 1:
        return x
    apart = b.add("unsqueeze", x, b.integers([2]))
    spread = b.add("expand", apart, b.integers([1, 1, times, 1, 1]))
    shape = b.add("shape", x, start=2, end=4)
    outer = b.add("concat", b.add("shape", x, start=0, end=1), b.integers([-1]), shape, axis=0)
    return b.add("reshape", spread, outer, allowzero=False)


def scale_of(node: OnnxNode, q: Value, b: Builder) -> Value:
    """The attribute `scale`, or 1 / sqrt(size of a head)."""
    stated = node.number("scale", 0.0)
    if stated:
        return b.scalar(stated, q.dtype)
    dims = b.known.dims(q)
    size = dims[-1] if dims else None
    if size is not None:
        return b.scalar(1 / math.sqrt(size), q.dtype) if size else b.scalar(1, q.dtype)
    if q.dtype is None:
        raise Unsupported("the element type of its inputs must be known")
    length = b.size(q, 3)
    root = b.add("sqrt", b.add("cast", length, to=dtypes.f32))
    return b.add("cast", b.add("reciprocal", root), to=q.dtype)
