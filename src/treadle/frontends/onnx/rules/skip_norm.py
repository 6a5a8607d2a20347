"""Normalisations that ONNX Runtime fuses with what they are added to (com.microsoft), and embeddings of BERT.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_EPSILON = 1e-12


def skip_layer_norm(node: OnnxNode, b: Builder) -> list[Value | None]:
    """SkipLayerNormalization(x, skip, gamma, beta, bias) -> layer_norm(x + bias + skip), and that sum."""
    total = _sum(node, 4, b)
    scale = node.number("epsilon", _EPSILON)
    return _results(node, total, b.add("layer_norm", total, node.input(2), node.optional(3), axis=-1, epsilon=scale))


def skip_rms_norm(node: OnnxNode, b: Builder) -> list[Value | None]:
    """SkipSimplifiedLayerNormalization(x, skip, gamma, bias) -> rms_norm(x + bias + skip), and that sum."""
    total = _sum(node, 3, b)
    scale = node.number("epsilon", _EPSILON)
    return _results(node, total, b.add("rms_norm", total, node.input(2), axis=-1, epsilon=scale))


def rms_norm(node: OnnxNode, b: Builder) -> Value:
    """SimplifiedLayerNormalization(x, scale) -> rms_norm(x, scale)."""
    if len(node.outputs) > 1:
        raise Unsupported("its result 'inv_std_var' is for training only")
    axis, scale = node.axis(node.integer("axis", -1)), node.number("epsilon", 1e-5)
    return b.add("rms_norm", node.input(0), node.input(1), axis=axis, epsilon=scale)


def _sum(node: OnnxNode, bias: int, b: Builder) -> Value:
    """x + bias + skip: the bias first, because it belongs to the product that made x."""
    x, added = node.input(0), node.optional(bias)
    return b.add("add", x if added is None else b.add("add", x, added), node.input(1))


def _results(node: OnnxNode, total: Value, normalised: Value) -> list[Value | None]:
    if any(name for name in node.outputs[1:3]):
        raise Unsupported("its results 'mean' and 'inv_std_var' are for training only")
    return [normalised, None, None, total]


def embed_layer_norm(node: OnnxNode, b: Builder) -> list[Value | None]:
    """EmbedLayerNormalization -> layer_norm(word + position + segment), the number of words of each text, the sum.

    Positions count from 0 if they are not given. Without a mask all texts have 0 words.
    """
    ids = node.input(0)
    total = b.add("gather", node.input(2), ids, axis=0)
    places = node.optional(8)
    if places is None:
        places = b.numbers(b.size(ids, 1))
    total = b.add("add", total, b.add("gather", node.input(3), places, axis=0))
    segments, table = node.optional(1), node.optional(4)
    if segments is not None and table is not None:
        total = b.add("add", total, b.add("gather", table, segments, axis=0))
    normalised = b.add(
        "layer_norm", total, node.input(5), node.input(6), axis=-1, epsilon=node.number("epsilon", _EPSILON)
    )
    return [normalised, _words(node, ids, b) if any(node.outputs[1:2]) else None, total]


def _words(node: OnnxNode, ids: Value, b: Builder) -> Value:
    """The number of words of each text i32[N]: those whose mask is 1."""
    mask = node.optional(7)
    if mask is None:
        return b.add("constant_of_shape", b.add("shape", ids, start=0, end=1), value=np.zeros(1, np.int32))
    words = b.add("cast", b.add("eq", mask, b.scalar(1, dtypes.i32)), to=dtypes.i32)
    return b.add("reduce_sum", words, axes=(1,), keepdims=False)


def quantized_embed_layer_norm(node: OnnxNode, b: Builder) -> list[Value | None]:
    """QEmbedLayerNormalization -> EmbedLayerNormalization of tables of bytes, each with one scale and zero point."""
    operands: list[Value | None] = list(node.inputs[:8])
    for place, index in enumerate((2, 3, 4, 5, 6)):
        table = node.optional(index)
        if table is None:
            continue
        scale, zero = (b.as_scalar(node.input(first + place)) for first in (8, 13))
        wide = [b.add("cast", each, to=dtypes.f32) for each in (table, zero)]
        operands[index] = b.add("mul", b.add("sub", *wide), scale)
    return embed_layer_norm(node.reading(operands), b)[:2]
