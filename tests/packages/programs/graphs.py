"""Small graphs with random weights, as exporters write them: an encoder of texts, networks of images, a voice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

FLOAT, INTEGER = TensorProto.FLOAT, TensorProto.INT64


class Builder:
    """Collects nodes; each method returns the name of its result."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one result."""
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, values: Any, dtype: type = np.float32) -> str:
        """Add an initializer."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weights(self, *shape: int) -> str:
        """Add random weights that keep the size of what they multiply: `shape` is that of a convolution or a matrix."""
        depth = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return self.constant(self._rng.standard_normal(shape) / np.sqrt(depth))

    def conv(self, x: str, into: int, out: int, size: int = 3, stride: int = 1) -> str:
        """Add a convolution of images with a bias."""
        edge = size // 2
        bias = self.constant(self._rng.standard_normal(out) / 10)
        kernel = self.weights(out, into, size, size)
        return self.op("Conv", x, kernel, bias, pads=[edge] * 4, strides=[stride] * 2, kernel_shape=[size] * 2)

    def linear(self, x: str, into: int, out: int) -> str:
        """Add a product with a bias."""
        return self.op("Add", self.op("MatMul", x, self.weights(into, out)), self.constant(np.zeros(out)))

    def model(self, inputs: dict[str, tuple[int, Any]], outputs: dict[str, tuple[str, Any]]) -> ModelProto:
        """Finish: name -> (dtype, shape) of inputs, name -> (result, shape) of float outputs."""
        for name, (result, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [result], [name]))
        declared = [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()]
        wanted = [helper.make_tensor_value_info(name, FLOAT, shape) for name, (_, shape) in outputs.items()]
        graph = helper.make_graph(self._nodes, "small", declared, wanted, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def encoder(vocabulary: int, width: int, heads: int = 6, layers: int = 4) -> ModelProto:
    """Return a BERT: input_ids, attention_mask and token_type_ids [batch, length] -> last_hidden_state."""
    g = Builder(0)
    each = width // heads

    def normalised(x: str) -> str:
        return g.op("LayerNormalization", x, g.constant(np.ones(width)), g.constant(np.zeros(width)), axis=-1)

    def split(x: str) -> str:
        parts = g.op("Reshape", g.linear(x, width, width), g.constant([0, 0, heads, each], np.int64))
        return g.op("Transpose", parts, perm=[0, 2, 1, 3])

    length = g.op("Gather", g.op("Shape", "input_ids"), g.constant(1, np.int64), axis=0)
    positions = g.op("Range", g.constant(0, np.int64), length, g.constant(1, np.int64))
    words = g.op("Gather", g.weights(vocabulary, width), "input_ids")
    kinds = g.op("Gather", g.weights(2, width), "token_type_ids")
    places = g.op("Gather", g.weights(512, width), positions)
    x = normalised(g.op("Add", g.op("Add", words, kinds), places))
    mask = g.op("Cast", g.op("Unsqueeze", "attention_mask", g.constant([1, 2], np.int64)), to=FLOAT)
    hidden = g.op("Mul", g.op("Sub", g.constant(1.0), mask), g.constant(np.finfo(np.float32).min))
    for _ in range(layers):
        scores = g.op("MatMul", split(x), g.op("Transpose", split(x), perm=[0, 1, 3, 2]))
        shares = g.op("Softmax", g.op("Add", g.op("Div", scores, g.constant(np.sqrt(each))), hidden), axis=-1)
        context = g.op("Transpose", g.op("MatMul", shares, split(x)), perm=[0, 2, 1, 3])
        context = g.op("Reshape", context, g.constant([0, 0, width], np.int64))
        x = normalised(g.op("Add", g.linear(context, width, width), x))
        inner = g.linear(x, width, 4 * width)
        grown = g.op("Add", g.op("Erf", g.op("Div", inner, g.constant(np.sqrt(2)))), g.constant(1.0))
        gelu = g.op("Mul", g.op("Mul", inner, grown), g.constant(0.5))
        x = normalised(g.op("Add", g.linear(gelu, 4 * width, width), x))
    shape = ["batch", "length"]
    inputs = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (INTEGER, shape))
    return g.model(inputs, {"last_hidden_state": (x, [*shape, width])})


def detector() -> ModelProto:
    """Return a detector of faces like SCRFD: scores, boxes and points of two anchors at strides 8, 16 and 32."""
    g = Builder(1)
    x, channels = "input.1", 3
    for _ in range(2):
        x, channels = g.op("Relu", g.conv(x, channels, 32, stride=2)), 32
    found: dict[int, dict[str, str]] = {}
    for stride in (8, 16, 32):
        x = g.op("Relu", g.conv(x, channels, 48, stride=2))
        channels = 48
        x = g.op("Relu", g.conv(x, 48, 48))
        found[stride] = {}
        for kind, each in (("score", 1), ("bbox", 4), ("kps", 10)):
            rows = g.op("Transpose", g.conv(x, 48, 2 * each), perm=[0, 2, 3, 1])
            found[stride][kind] = g.op("Reshape", rows, g.constant([-1, each], np.int64))
        found[stride]["score"] = g.op("Sigmoid", found[stride]["score"])
        found[stride]["bbox"] = g.op("Exp", found[stride]["bbox"])
    outputs = {
        f"{kind}_{stride}": (found[stride][kind], [f"rows {stride}", each])
        for kind, each in (("score", 1), ("bbox", 4), ("kps", 10))
        for stride in (8, 16, 32)
    }
    return g.model({"input.1": (FLOAT, [1, 3, "?", "?"])}, outputs)


def classifier(size: int, results: int, seed: int) -> ModelProto:
    """Return a small residual network: images [batch, 3, size, size] -> [batch, results]."""
    g = Builder(seed)
    x, channels = "data", 3
    for wider in (32, 48, 64, 96):
        x = g.op("PRelu", g.conv(x, channels, wider, stride=2), g.constant(np.full((wider, 1, 1), 0.25)))
        x, channels = g.op("Add", x, g.op("Relu", g.conv(x, wider, wider))), wider
    flat = g.op("Flatten", g.op("GlobalAveragePool", x))
    result = g.op("Gemm", flat, g.weights(96, results), g.constant(np.zeros(results)))
    return g.model({"data": (FLOAT, ["None", 3, size, size])}, {"fc1": (result, ["None", results])})


def mask_network() -> ModelProto:
    """Return a U-Net: an image [1, 3, 320, 320] -> the probability that a pixel is in front."""
    g = Builder(3)
    kept, x, channels = [], "input", 3
    for wider in (16, 32, 64):
        x, channels = g.op("Relu", g.conv(x, channels, wider)), wider
        kept.append((x, wider))
        x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    x = g.op("Relu", g.conv(x, 64, 64))
    for skipped, wide in reversed(kept):
        doubled = g.constant([1, 1, 2, 2])
        x = g.op("Resize", x, "", doubled, mode="linear", coordinate_transformation_mode="half_pixel")
        x = g.op("Relu", g.conv(g.op("Concat", x, skipped, axis=1), channels + wide, wide))
        channels = wide
    shape = [1, 3, 320, 320]
    return g.model({"input": (FLOAT, shape)}, {"mask": (g.op("Sigmoid", g.conv(x, channels, 1)), [1, 1, 320, 320])})


def voice(symbols: int, width: int = 96) -> ModelProto:
    """Return a speech synthesiser like VITS: the durations of phonemes say how long each is repeated."""
    g = Builder(4)

    def along(x: str, into: int, out: int, size: int = 3, dilation: int = 1) -> str:
        edge = size // 2 * dilation
        return g.op("Conv", x, g.weights(out, into, size), pads=[edge, edge], dilations=[dilation])

    x = g.op("Transpose", g.op("Gather", g.weights(symbols, width), "input"), perm=[0, 2, 1])
    for _ in range(3):
        x = g.op("Add", x, g.op("Relu", along(x, width, width, 5)))
    noise, length = (g.op("Gather", "scales", g.constant(number, np.int64), axis=0) for number in (0, 1))
    spans = g.op("Mul", g.op("Softplus", along(x, width, 1)), g.op("Mul", length, g.constant(4.0)))
    ends = g.op("CumSum", g.op("Ceil", spans), g.constant(2, np.int64))
    total = g.op("Cast", g.op("ReduceMax", ends, keepdims=0), to=INTEGER)
    frames = g.op("Range", g.constant(0, np.int64), total, g.constant(1, np.int64))
    frames = g.op("Unsqueeze", g.op("Cast", frames, to=FLOAT), g.constant([1], np.int64))
    before = g.op("Cast", g.op("Less", frames, g.op("Squeeze", ends, g.constant([1], np.int64))), to=FLOAT)
    shifted = g.op("Pad", before, g.constant([0, 1, 0, -1], np.int64))
    path = g.op("Sub", before, shifted)
    x = g.op("MatMul", x, g.op("Transpose", path, perm=[1, 0]))
    x = g.op("Add", x, g.op("Mul", g.op("RandomNormalLike", x), noise))
    for out in (64, 32):
        x = g.op("LeakyRelu", x, alpha=0.1)
        kernel = g.weights(width, out, 16)
        x = g.op("ConvTranspose", x, kernel, strides=[8], pads=[4, 4], kernel_shape=[16])
        for dilation in (1, 3):
            x = g.op("Add", x, along(g.op("LeakyRelu", x, alpha=0.1), out, out, 7, dilation))
        width = out
    audio = g.op("Unsqueeze", g.op("Tanh", along(x, width, 1, 7)), g.constant([1], np.int64))
    inputs = {"input": (INTEGER, ["batch", "phonemes"]), "input_lengths": (INTEGER, ["batch"]), "scales": (FLOAT, [3])}
    return g.model(inputs, {"output": (audio, ["batch", 1, 1, "time"])})


TEXTS = ("one team of threads", "every model runs in order and waits for work without making another team", "work")


def numbers(vectors: Iterable[Any]) -> list[tuple[str, float]]:
    """Return the first numbers of the vector of each of TEXTS, as answers."""
    return [(text, float(number)) for text, vector in zip(TEXTS, vectors, strict=True) for number in vector[:8]]


def write_tokenizer(folder: Path) -> int:
    """Write a tokenizer of the words of TEXTS to `folder`. Returns the size of its vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted(set(" ".join(TEXTS).split()))
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A $B [SEP]", ends)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    contents = {
        "config.json": {"model_type": "bert", "pad_token_id": 0},
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "model_max_length": 128, **names},
        "special_tokens_map.json": names,
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return len(vocabulary)


def write_encoder(folder: Path, width: int = 192) -> None:
    """Write a tokenizer of the words of TEXTS and an `encoder` of them, model.onnx, to `folder`."""
    vocabulary = write_tokenizer(folder)
    (folder / "model.onnx").write_bytes(encoder(vocabulary, width).SerializeToString())
