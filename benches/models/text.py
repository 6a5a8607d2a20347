"""Transformer encoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network


def encoder(name: str, path: Path, *, tokens: int, width: int, layers: int, heads: int, vocabulary: int) -> None:
    """A BERT encoder (Devlin et al. 2018) over one sequence of `tokens` token numbers."""
    net = Network(name)
    x = net.input("x", TensorProto.INT64, [1, tokens])
    x = net.op("Gather", net.weight((vocabulary, width), width), x, axis=0)
    positions = net.weight((1, tokens, width), width)
    x = net.layer_norm(net.op("Add", x, positions), width)
    size = width // heads
    for _ in range(layers):
        q, k, v = (net.linear(x, width, width) for _ in range(3))
        split = net.ints(1, tokens, heads, size)
        q, v = (net.op("Transpose", net.op("Reshape", t, split), perm=[0, 2, 1, 3]) for t in (q, v))
        k = net.op("Transpose", net.op("Reshape", k, split), perm=[0, 2, 3, 1])
        scale = net.constant(f"scale_{len(net.weights)}", np.array(1.0 / np.sqrt(size), np.float32))
        scores = net.op("Softmax", net.op("Mul", net.op("MatMul", q, k), scale), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        mixed = net.op("Reshape", mixed, net.ints(1, tokens, width))
        x = net.layer_norm(net.op("Add", net.linear(mixed, width, width), x), width)
        wide = net.gelu(net.linear(x, width, 4 * width))
        x = net.layer_norm(net.op("Add", net.linear(wide, 4 * width, width), x), width)
    net.save(x, [1, tokens, width], path)


def bert_base_s128(path: Path) -> None:
    """BERT base, 128 tokens."""
    encoder("bert_base_s128", path, tokens=128, width=768, layers=12, heads=12, vocabulary=30522)


def minilm_s64(path: Path) -> None:
    """MiniLM-L6, 64 tokens."""
    encoder("minilm_s64", path, tokens=64, width=384, layers=6, heads=12, vocabulary=30522)


def bert_base_s1024(path: Path) -> None:
    """Two layers of BERT base over a long text: 1024 tokens."""
    encoder("bert_base_s1024", path, tokens=1024, width=768, layers=2, heads=12, vocabulary=30522)
