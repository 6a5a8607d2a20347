"""LinearAttention of ai.onnx and of ONNX Runtime (com.microsoft), and LinearAttentionGate.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_WITH_DECAY, _WITH_RATE = ("gated", "gated_delta"), ("delta", "gated_delta")


def linear_attention(node: OnnxNode, b: Builder) -> list[Value] | None:
    """LinearAttention(q, k, v, past, decay, rate) -> linear_attention in f32, and the state after the last token.

    Left to the reference where the width of a head is not known.
    """
    heads, shared = _counts(node)
    if heads % shared:
        raise Fault(f"attribute 'q_num_heads' must be a multiple of 'kv_num_heads', got {heads} and {shared}")
    return _attended(node, heads, shared, b)


def linear_attention_of_microsoft(node: OnnxNode, b: Builder) -> list[Value]:
    """LinearAttention of com.microsoft: several heads of keys and values may also share one of queries."""
    heads, shared = _counts(node)
    if heads % shared and shared % heads:
        raise Fault(f"one of 'q_num_heads' and 'kv_num_heads' must be a multiple of the other, got {heads}, {shared}")
    if node.integer("state_window", 0):
        raise Unsupported("attribute 'state_window' must be 0")
    found = _attended(node, heads, shared, b)
    if found is None:
        raise Unsupported("the last dimension of its query must be known, and its element types")
    return found


def linear_attention_gate(node: OnnxNode, b: Builder) -> list[Value | None]:
    """LinearAttentionGate(a, bias, scale, b) -> scale softplus(a + bias), sigmoid(b); computed in f32."""
    a, opening = node.input(0), node.optional(3)
    slope = b.add("softplus", b.add("add", b.cast(a, dtypes.f32), node.input(1)))
    decay = b.cast(b.add("mul", slope, node.input(2)), a.dtype)
    if opening is None:
        if any(node.outputs[1:2]):
            raise Fault("its input 'b' (number 3) is missing, from which its result 'beta' follows")
        return [decay, None]
    return [decay, b.cast(b.add("sigmoid", b.cast(opening, dtypes.f32)), opening.dtype)]


def _counts(node: OnnxNode) -> tuple[int, int]:
    heads, shared = (node.integer(name, 0) for name in ("q_num_heads", "kv_num_heads"))
    if min(heads, shared) < 1:
        raise Fault(f"attributes 'q_num_heads' and 'kv_num_heads' must be 1 or more, got {heads} and {shared}")
    return heads, shared


def _attended(node: OnnxNode, heads: int, shared: int, b: Builder) -> list[Value] | None:
    rule = node.choice("update_rule", "gated_delta", "linear", "gated", "delta", "gated_delta")
    for name, index, rules in (("decay", 4, _WITH_DECAY), ("beta", 5, _WITH_RATE)):
        if (node.optional(index) is not None) != (rule in rules):
            needed = "needs" if rule in rules else "has no"
            raise Fault(f"attribute 'update_rule' {rule!r} {needed} input {name!r} (number {index})")
    q, past = node.input(0), node.optional(3)
    dims, scale = node.dims(0), node.number("scale", 0.0)
    width = dims[-1] if dims else None
    if q.dtype is None or (past is not None and past.dtype is None) or (scale == 0 and not width):
        return None
    if scale == 0:
        assert width, "the rule would have been left"
        scale = 1 / math.sqrt(width / heads)
    wide = [None if value is None else b.cast(value, dtypes.f32) for value in (*node.inputs, *[None] * 6)[:6]]
    assert wide[0] is not None, "the schema requires it"
    wide[0] = b.add("mul", wide[0], b.scalar(scale, dtypes.f32))
    if wide[4] is not None:
        wide[4] = b.add("exp", wide[4])
    y, last = b.add_many("linear_attention", wide, 2, heads=heads, shared=shared)
    return [b.cast(y, q.dtype), b.cast(last, q.dtype if past is None else past.dtype)]
