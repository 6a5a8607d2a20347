"""Attention of ONNX, since opset 23."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.attention import Heads, joined, mixed, repeated, split_heads
from treadle.frontends.onnx.rules.attention_mask import length
from treadle.frontends.onnx.types import DTYPES
from treadle.graph.value import Value

_KNOWN = frozenset(
    {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap", "softmax_precision"}
)
"""The attributes of opset 23 and 24; later ones, such as windows, are left to the reference."""


def attention(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Attention(q, k, v, mask, past_k, past_v) -> heads attend; keys and values of all tokens.

    Left to the reference: the scores as a result, lengths of texts, a softmax in another precision.
    """
    rank = node.rank()
    precision = DTYPES.get(node.integer("softmax_precision", 0))
    if any(attribute.name not in _KNOWN for attribute in node.proto.attribute):
        return None
    if rank not in (3, 4) or any(node.rank(index) != rank for index in (1, 2)) or any(node.outputs[3:4]):
        return None
    if node.optional(6) is not None or precision == dtypes.f64 or node.dtype(2) != node.dtype() or _caps_a_mask(node):
        return None
    counts = _counts(node, rank)
    if counts is None or counts[0] % counts[1]:
        return None
    q, k, v = (node.input(index) for index in range(3))
    if rank == 3:
        q, k, v = (split_heads(x, n, b) for x, n in ((q, counts[0]), (k, counts[1]), (v, counts[1])))
    past = node.optional(4), node.optional(5)
    if past[0] is not None and past[1] is not None:
        k, v = (b.add("concat", *both, axis=2) for both in ((past[0], k), (past[1], v)))
    if _is_short(node, k, b):
        return None
    heads = Heads(q, *(repeated(each, counts[0] // counts[1], b) for each in (k, v)))
    mask, causal = _mask(node, b), _causal(node, q, k, b)
    result = mixed(node, heads, [mask, causal], b)
    if mask is not None:
        result = _where_seen(result, mask if causal is None else b.add("add", mask, causal), b)
    return [joined(result, b) if rank == 3 else result, k, v]


def _caps_a_mask(node: OnnxNode) -> bool:
    """Whether scores are capped after a mask is added, as opset 23 has it."""
    masked = node.optional(3) is not None or node.flag("is_causal", default=False)
    return node.version < 24 and masked and bool(node.number("softcap", 0.0))


def _counts(node: OnnxNode, rank: int) -> tuple[int, int] | None:
    """How many heads queries, and keys and values, have; None if it is not known."""
    stated = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if rank == 3:
        return stated if min(stated) > 0 else None
    shapes = node.dims(0), node.dims(1)
    found = [dims[1] for dims in shapes if dims is not None and dims[1]]
    return (found[0], found[1]) if len(found) == 2 and all(found) else None


def _is_short(node: OnnxNode, k: Value, b: Builder) -> bool:
    """Whether the mask may be for fewer keys than there are: those it lacks are excluded."""
    if node.optional(3) is None:
        return False
    mask, keys = node.dims(3), b.known.dims(k)
    if mask is None or keys is None:
        return True
    return None not in (mask[-1], keys[2]) and mask[-1] not in (1, keys[2])


def _where_seen(result: Value, added: Value, b: Builder) -> Value:
    """`result`, 0 for queries that see no key: where all that is `added` to their scores is minus infinity."""
    most = b.add("reduce_max", added, axes=(-1,), keepdims=True)
    return b.add("where", b.add("gt", most, b.scalar(-np.inf, added.dtype)), result, b.scalar(0, result.dtype))


def _mask(node: OnnxNode, b: Builder) -> Value | None:
    """What the mask adds to scores."""
    mask, dtype = node.optional(3), node.dtype()
    if mask is None or mask.dtype != dtypes.boolean:
        return mask
    return b.add("where", mask, b.scalar(0, dtype), b.scalar(-np.inf, dtype))


def _causal(node: OnnxNode, q: Value, k: Value, b: Builder) -> Value | None:
    """What excludes keys behind a query, which stands behind all past ones."""
    if not node.flag("is_causal", default=False):
        return None
    queries, keys = (b.numbers(length(x, b)) for x in (q, k))
    past = node.optional(4)
    if past is not None:
        queries = b.add("add", queries, length(past, b))
    allowed = b.add("le", keys, b.add("unsqueeze", queries, b.integers([1])))
    return b.add("where", allowed, b.scalar(0, q.dtype), b.scalar(-np.inf, q.dtype))
