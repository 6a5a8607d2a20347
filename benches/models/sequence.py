"""Models of sequences and tables: an encoder of speech, a decoder, recurrent layers, embedding bags."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network


def gpt2_s64(path: Path) -> None:
    """GPT-2 small (Radford et al. 2019), 64 tokens: norms first, causal mask, tanh GELU, no output projection."""
    net = Network("gpt2_s64")
    tokens, width, heads = 64, 768, 12
    size = width // heads
    numbers = net.input("x", TensorProto.INT64, [1, tokens])
    x = net.op("Gather", net.weight((50257, width), width), numbers, axis=0)
    x = net.op("Add", x, net.weight((1, tokens, width), width))
    mask = net.constant("mask", np.triu(np.full((tokens, tokens), -1e9, np.float32), 1))
    scale = net.constant("scale", np.array(1.0 / np.sqrt(size), np.float32))
    shape, joined = net.ints(1, tokens, heads, size), net.ints(1, tokens, width)
    for _ in range(12):
        normed = net.layer_norm(x, width)
        thirds = net.op_many("Split", 3, net.linear(normed, width, 3 * width), net.ints(width, width, width), axis=2)
        q, k, v = (net.op("Transpose", net.op("Reshape", t, shape), perm=[0, 2, 1, 3]) for t in thirds)
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.op("Softmax", net.op("Add", net.op("Mul", scores, scale), mask), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = net.op("Add", x, net.linear(net.op("Reshape", mixed, joined), width, width))
        wide = net.gelu_tanh(net.linear(net.layer_norm(x, width), width, 4 * width))
        x = net.op("Add", x, net.linear(wide, 4 * width, width))
    net.save(net.layer_norm(x, width), [1, tokens, width], path)


def whisper_tiny(path: Path) -> None:
    """The encoder of Whisper tiny (Radford et al. 2022): 30 seconds of speech, which are 1500 positions."""
    net = Network("whisper_tiny")
    positions, width, heads = 1500, 384, 6
    size = width // heads
    x = net.input("x", TensorProto.FLOAT, [1, 80, 2 * positions])
    for into, stride in ((80, 1), (width, 2)):
        w, b = net.weight((width, into, 3), 3 * into), net.weight((width,), 64)
        x = net.gelu(net.op("Conv", x, w, b, kernel_shape=[3], strides=[stride], pads=[1, 1]))
    x = net.op("Add", net.op("Transpose", x, perm=[0, 2, 1]), net.weight((positions, width), width))
    split, joined = net.ints(1, positions, heads, size), net.ints(1, positions, width)
    scale = net.constant("scale", np.array(size**-0.5, np.float32))
    for _ in range(4):
        normed = net.layer_norm(x, width)
        q, k, v = (net.op("Reshape", net.linear(normed, width, width), split) for _ in range(3))
        q, v = (net.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (net.op("Mul", q, scale), v))
        weights = net.op("Softmax", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 3, 1])), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = net.op("Add", x, net.linear(net.op("Reshape", mixed, joined), width, width))
        wide = net.gelu(net.linear(net.layer_norm(x, width), width, 4 * width))
        x = net.op("Add", x, net.linear(wide, 4 * width, width))
    net.save(net.layer_norm(x, width), [1, positions, width], path)


def lstm_speech(path: Path) -> None:
    """Two bidirectional LSTM layers of 256 over 100 frames of 80 features, and a classifier of each frame."""
    net = Network("lstm_speech")
    x = net.input("x", TensorProto.FLOAT, [100, 1, 80])
    into, hidden = 80, 256
    for _ in range(2):
        x = net.recurrent("LSTM", x, into, hidden, gates=4)
        into = 2 * hidden
        x = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1, 3]), net.ints(100, 1, into))
    net.save(net.linear(x, into, 64), [100, 1, 64], path)


def gru_text(path: Path) -> None:
    """A bidirectional GRU of 128 over 64 embedded tokens of 8 texts."""
    net = Network("gru_text")
    numbers = net.input("x", TensorProto.INT64, [64, 8])
    x = net.op("Gather", net.weight((20000, 128), 128), numbers, axis=0)
    x = net.recurrent("GRU", x, 128, 128, gates=3)
    last = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1, 3]), net.ints(64, 8, 256))
    net.save(net.linear(last, 256, 16), [64, 8, 16], path)


def embedding_bags(path: Path) -> None:
    """A recommender's front (Naumov et al. 2019): 8 tables of 100,000 rows of 64, 128 users, bags of 32, an MLP."""
    net = Network("embedding_bags")
    numbers = net.input("x", TensorProto.INT64, [8, 128, 32])
    bags = []
    for i in range(8):
        table = net.weight((100_000, 64), 64)
        items = net.op("Gather", numbers, net.constant(f"table_{i}", np.array(i, np.int64)), axis=0)
        bags.append(net.op("ReduceSum", net.op("Gather", table, items, axis=0), net.ints(1), keepdims=0))
    x = net.op("Concat", *bags, axis=1)
    x = net.op("Relu", net.linear(x, 512, 256))
    net.save(net.op("Sigmoid", net.linear(x, 256, 1)), [128, 1], path)
