"""Writes networks as ONNX graphs: each method adds a layer and returns its output's name."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Network:
    """An ONNX graph under construction. Weights are normal, seeded by their names, He-scaled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.count = 0

    def input(self, name: str, dtype: int, shape: Sequence[int | str]) -> str:
        """Adds an input; names in its `shape` are open dimensions."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds one node of type `kind` with one output."""
        self.count += 1
        name = f"{kind.lower()}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, array: np.ndarray[Any, Any]) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, shape: tuple[int, ...], fan_in: int) -> str:
        """Adds a weight tensor of fp32."""
        name = f"weight_{len(self.weights)}"
        rng = np.random.default_rng(zlib.crc32(f"{self.name}/{name}".encode()))
        values = rng.standard_normal(shape, dtype=np.float32) * np.sqrt(2.0 / fan_in)
        return self.constant(name, values.astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(f"ints_{len(self.weights)}", np.array(values, np.int64))

    def conv(
        self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
    ) -> str:
        """Convolution with bias; `channels` are (in, out)."""
        into, out = channels
        fan_in = into // groups * kernel * kernel
        w = self.weight((out, into // groups, kernel, kernel), fan_in)
        b = self.weight((out,), 64)
        return self.op("Conv", x, w, b, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def conv_relu(self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, pad: int = 0) -> str:
        return self.op("Relu", self.conv(x, channels, kernel, stride, pad))

    def conv_transpose(self, x: str, channels: tuple[int, int], kernel: int) -> str:
        """Transposed convolution with bias whose kernels lie side by side; `channels` are (in, out)."""
        into, out = channels
        w, b = self.weight((into, out, kernel, kernel), into), self.weight((out,), 64)
        return self.op("ConvTranspose", x, w, b, kernel_shape=[kernel] * 2, strides=[kernel] * 2)

    def max_pool(self, x: str, kernel: int, stride: int, pad: int = 0, ceil: bool = False) -> str:
        return self.op(
            "MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, ceil_mode=int(ceil)
        )

    def linear(self, x: str, into: int, out: int) -> str:
        """x @ w + b with w [into, out]."""
        product = self.op("MatMul", x, self.weight((into, out), into))
        return self.op("Add", self.weight((out,), 64), product)

    def classifier(self, x: str, into: int, out: int) -> str:
        """Global average pool and a fully connected layer."""
        flat = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        return self.op("Gemm", flat, self.weight((out, into), into), self.weight((out,), 64), transB=1)

    def layer_norm(self, x: str, width: int) -> str:
        scale = self.constant(f"scale_{len(self.weights)}", np.ones(width, np.float32))
        return self.op("LayerNormalization", x, scale, self.weight((width,), 64), axis=-1, epsilon=1e-12)

    def gelu(self, x: str) -> str:
        """x / 2 * (1 + erf(x / sqrt 2)), decomposed as exporters write it."""
        root = self.constant(f"root_{len(self.weights)}", np.array(np.sqrt(2.0), np.float32))
        one = self.constant(f"one_{len(self.weights)}", np.array(1.0, np.float32))
        half = self.constant(f"half_{len(self.weights)}", np.array(0.5, np.float32))
        grown = self.op("Add", self.op("Erf", self.op("Div", x, root)), one)
        return self.op("Mul", self.op("Mul", x, grown), half)

    def op_many(self, kind: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds one node of type `kind` with several outputs."""
        self.count += 1
        names = [f"{kind.lower()}_{self.count}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names

    def norm_relu(self, x: str, width: int) -> str:
        """Batch norm with its own statistics, and ReLU."""
        ones = [self.constant(f"norm_{len(self.weights)}", np.ones(width, np.float32)) for _ in range(2)]
        scale, variance = ones
        bias, mean = (self.weight((width,), 64) for _ in range(2))
        return self.op("Relu", self.op("BatchNormalization", x, scale, bias, mean, variance))

    def gelu_tanh(self, x: str) -> str:
        """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), decomposed as exporters write it."""
        number = {
            name: self.constant(f"{name}_{len(self.weights)}", np.array(value, np.float32))
            for name, value in (("cubic", 0.044715), ("root", np.sqrt(2 / np.pi)), ("half", 0.5), ("one", 1.0))
        }
        cubed = self.op("Mul", self.op("Mul", self.op("Mul", x, x), x), number["cubic"])
        inner = self.op("Tanh", self.op("Mul", self.op("Add", x, cubed), number["root"]))
        return self.op("Mul", self.op("Mul", x, number["half"]), self.op("Add", inner, number["one"]))

    def recurrent(self, kind: str, x: str, into: int, hidden: int, *, gates: int) -> str:
        """A bidirectional recurrent layer over x [time, batch, into]; its result is [time, 2, batch, hidden]."""
        w = self.weight((2, gates * hidden, into), into)
        r = self.weight((2, gates * hidden, hidden), 4 * hidden)
        b = self.weight((2, 2 * gates * hidden), 64)
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        return self.op(kind, x, w, r, b, hidden_size=hidden, direction="bidirectional", **more)

    def name_output(self, x: str, name: str) -> None:
        """Adds a copy of x with the name of an output."""
        self.nodes.append(helper.make_node("Identity", [x], [name], name=name))

    def save(self, output: str, shape: list[int], path: Path) -> None:
        """Writes the network with `output` as its only output, named y."""
        self.name_output(output, "y")
        self.save_all(["y"], shape, path)

    def save_all(self, outputs: list[str], shape: list[int], path: Path) -> None:
        """Writes the network with `outputs`, all of one shape."""
        self.save_outputs(dict.fromkeys(outputs, shape), path)

    def save_outputs(self, outputs: Mapping[str, Sequence[int | str]], path: Path) -> None:
        """Writes the network with `outputs`, the shapes by name."""
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.save(model, path)
