"""Models with open dimensions, with the arithmetic on shapes that exporters write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network

DECODER_LAYERS, DECODER_WIDTH, DECODER_HEADS = 6, 512, 8
POSITIONS = 1024
"""The longest text of the decoder."""


class OpenNetwork(Network):
    """A network in which sizes are computed from shapes."""

    def number(self, value: float) -> str:
        return self.constant(f"number_{len(self.weights)}", np.array(value, np.float32))

    def integer(self, value: int) -> str:
        """Adds an int64 scalar."""
        return self.constant(f"integer_{len(self.weights)}", np.array(value, np.int64))

    def size(self, x: str, axis: int) -> str:
        """One dimension of x as a scalar."""
        return self.op("Gather", self.op("Shape", x), self.integer(axis), axis=0)

    def vector(self, *sizes: str | int) -> str:
        """Joins scalars and numbers to a vector."""
        parts = [
            self.ints(size) if isinstance(size, int) else self.op("Unsqueeze", size, self.ints(0)) for size in sizes
        ]
        return self.op("Concat", *parts, axis=0)

    def resize_as(self, x: str, wanted: str) -> str:
        """Resizes the images x to the height and width of `wanted`, by the nearest pixel."""
        outer = self.op("Slice", self.op("Shape", x), self.ints(0), self.ints(2), self.ints(0))
        inner = self.op("Slice", self.op("Shape", wanted), self.ints(2), self.ints(4), self.ints(0))
        sizes = self.op("Concat", outer, inner, axis=0)
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.op("Resize", x, "", "", sizes, **modes)


def encoder(
    name: str, path: Path, *, width: int, layers: int, heads: int, vocabulary: int, pooled: bool = False
) -> None:
    """A BERT encoder (Devlin et al. 2018) with open batch and length, padded texts and a mask.

    If it is `pooled`, its output is the mean of the rows of tokens, as of sentence-transformers.
    """
    net = OpenNetwork(name)
    tokens, mask, types = (
        net.input(each, TensorProto.INT64, ["batch", "length"])
        for each in ("input_ids", "attention_mask", "token_type_ids")
    )
    batch, length = net.size(tokens, 0), net.size(tokens, 1)
    numbers = net.constant("position_ids", np.arange(512, dtype=np.int64)[None])
    end = net.op("Unsqueeze", length, net.ints(0))
    positions = net.op("Slice", numbers, net.ints(0), end, net.ints(1), net.ints(1))
    x = net.op("Gather", net.weight((vocabulary, width), width), tokens, axis=0)
    x = net.op("Add", x, net.op("Gather", net.weight((2, width), width), types, axis=0))
    x = net.op("Add", x, net.op("Gather", net.weight((512, width), width), positions, axis=0))
    x = net.layer_norm(x, width)
    wide_mask = net.op("Cast", net.op("Unsqueeze", mask, net.ints(1, 2)), to=TensorProto.FLOAT)
    lowest = net.number(float(np.finfo(np.float32).min))
    added = net.op("Mul", net.op("Sub", net.number(1.0), wide_mask), lowest)
    size = width // heads
    for _ in range(layers):
        q, k, v = (
            net.op("Reshape", net.linear(x, width, width), net.vector(batch, length, heads, size)) for _ in range(3)
        )
        q, v = (net.op("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
        k = net.op("Transpose", k, perm=[0, 2, 3, 1])
        scores = net.op("Add", net.op("Div", net.op("MatMul", q, k), net.number(size**0.5)), added)
        mixed = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        mixed = net.op("Reshape", mixed, net.vector(batch, length, width))
        x = net.layer_norm(net.op("Add", net.linear(mixed, width, width), x), width)
        wide = net.gelu(net.linear(x, width, 4 * width))
        x = net.layer_norm(net.op("Add", net.linear(wide, 4 * width, width), x), width)
    if pooled:
        wide_mask = net.op("Cast", net.op("Unsqueeze", mask, net.ints(2)), to=TensorProto.FLOAT)
        wide_mask = net.op("Expand", wide_mask, net.op("Shape", x))
        total = net.op("ReduceSum", net.op("Mul", x, wide_mask), net.ints(1), keepdims=0)
        count = net.op("Clip", net.op("ReduceSum", wide_mask, net.ints(1), keepdims=0), net.number(1e-9))
        net.name_output(net.op("Div", total, count), "sentence_embedding")
        net.save_outputs({"sentence_embedding": ["batch", width]}, path)
        return
    net.name_output(x, "last_hidden_state")
    net.save_outputs({"last_hidden_state": ["batch", "length", width]}, path)


def past_names(layers: int) -> list[str]:
    """The decoder's inputs of earlier keys and values, in the order of its outputs after the logits."""
    return [f"past.{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]


def decoder(name: str, path: Path, *, width: int, layers: int, heads: int, vocabulary: int) -> None:
    """A decoder like GPT-2 (Radford et al. 2019) that takes keys and values of the past and returns all of them."""
    net = OpenNetwork(name)
    size = width // heads
    tokens = net.input("input_ids", TensorProto.INT64, ["batch", "queries"])
    names = past_names(layers)
    for each in names:
        net.input(each, TensorProto.FLOAT, ["batch", heads, "past", size])
    batch, queries = net.size(tokens, 0), net.size(tokens, 1)
    past = net.size(names[0], 2)
    total = net.op("Add", past, queries)
    numbers = net.op("Unsqueeze", net.op("Range", past, total, net.integer(1)), net.ints(0))
    x = net.op("Gather", net.weight((vocabulary, width), width), tokens, axis=0)
    x = net.op("Add", x, net.op("Gather", net.weight((POSITIONS, width), width), numbers, axis=0))
    triangle = net.constant("triangle", np.tri(POSITIONS, dtype=np.bool_)[None, None])
    start, end = net.vector(past), net.vector(total)
    seen = net.op("Slice", triangle, start, end, net.ints(2), net.ints(1))
    seen = net.op("Slice", seen, net.ints(0), end, net.ints(3), net.ints(1))
    lowest = net.number(float(np.finfo(np.float32).min))
    shapes: dict[str, list[int | str]] = {"logits": ["batch", "queries", vocabulary]}
    for layer in range(layers):
        normed = net.layer_norm(x, width)
        thirds = net.op_many("Split", 3, net.linear(normed, width, 3 * width), net.ints(width, width, width), axis=2)
        q, k, v = (
            net.op("Transpose", net.op("Reshape", each, net.vector(batch, queries, heads, size)), perm=[0, 2, 1, 3])
            for each in thirds
        )
        k, v = (
            net.op("Concat", old, new, axis=2)
            for old, new in zip(names[2 * layer : 2 * layer + 2], (k, v), strict=True)
        )
        for kind, joined in (("key", k), ("value", v)):
            output = f"present.{layer}.{kind}"
            net.name_output(joined, output)
            shapes[output] = ["batch", heads, "total", size]
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.op("Where", seen, net.op("Div", scores, net.number(size**0.5)), lowest)
        mixed = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        mixed = net.op("Reshape", mixed, net.vector(batch, queries, width))
        x = net.op("Add", x, net.linear(mixed, width, width))
        wide = net.gelu_tanh(net.linear(net.layer_norm(x, width), width, 4 * width))
        x = net.op("Add", x, net.linear(wide, 4 * width, width))
    logits = net.op("MatMul", net.layer_norm(x, width), net.weight((width, vocabulary), width))
    net.name_output(logits, "logits")
    net.save_outputs(shapes, path)


def detector(name: str, path: Path, *, channels: tuple[int, ...]) -> None:
    """A text detector with free height and width: each level halves the image, a pyramid joins all of them again."""
    net = OpenNetwork(name)
    x = net.input("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    x = net.conv_relu(x, (3, channels[0]), 3, 2, 1)
    levels, into, joined = [], channels[0], channels[0]
    for out in channels:
        x = net.conv_relu(net.conv_relu(x, (into, out), 3, 2, 1), (out, out), 3, 1, 1)
        levels.append(net.conv(x, (out, joined), 1))
        into = out
    for i in reversed(range(len(levels) - 1)):
        levels[i] = net.op("Add", levels[i], net.resize_as(levels[i + 1], levels[i]))
    pyramid = [net.conv_relu(level, (joined, joined), 3, 1, 1) for level in levels]
    x = net.op("Concat", pyramid[0], *(net.resize_as(level, pyramid[0]) for level in pyramid[1:]), axis=1)
    x = net.conv_relu(x, (joined * len(pyramid), joined), 3, 1, 1)
    x = net.conv(net.resize_as(x, "image"), (joined, 1), 3, 1, 1)
    net.name_output(net.op("Sigmoid", x), "text")
    net.save_outputs({"text": ["batch", 1, "height", "width"]}, path)


def encoder_open(path: Path) -> None:
    """MiniLM-L6."""
    encoder("encoder_open", path, width=384, layers=6, heads=12, vocabulary=30522)


def embedder_open(path: Path) -> None:
    """MiniLM-L6 with its pooling."""
    encoder("embedder_open", path, width=384, layers=6, heads=12, vocabulary=30522, pooled=True)


def decoder_open(path: Path) -> None:
    """Six layers of 512 with the vocabulary of GPT-2."""
    sizes = {"width": DECODER_WIDTH, "layers": DECODER_LAYERS, "heads": DECODER_HEADS}
    decoder("decoder_open", path, vocabulary=50257, **sizes)


def detector_open(path: Path) -> None:
    """Four levels, the last of them a 32nd of the image."""
    detector("detector_open", path, channels=(32, 48, 64, 96))
