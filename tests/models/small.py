"""Small ONNX models for tests of the whole system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
FLOAT = TensorProto.FLOAT


def node(op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Returns a node that has the name of its first result."""
    return helper.make_node(op, list(inputs), list(outputs), name=outputs[0], **attributes)


def side(nodes: Sequence[onnx.NodeProto], *results: str, weights: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    """Returns the graph of a side of an If that gives `results`."""
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    return helper.make_graph(list(nodes), "side", [], outputs, list(weights))


class ModelWriter:
    """Writes an ONNX model node by node."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape: int) -> str:
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32))

    def model(
        self,
        inputs: dict[str, tuple[int, list[Any]]],
        outputs: dict[str, tuple[int, list[Any] | None]],
        opset: int = 17,
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info(name, *form) for name, form in inputs.items()],
            [helper.make_tensor_value_info(name, *form) for name, form in outputs.items()],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def branches(width: int = 64, count: int = 4) -> onnx.ModelProto:
    """Independent matmul towers of x [16, width], summed: inter-op and intra-op work."""
    w = ModelWriter()
    ends = []
    for _ in range(count):
        y = "x"
        for _ in range(3):
            y = w.op("Relu", w.op("Add", w.op("MatMul", y, w.random(width, width)), w.random(width)))
        ends.append(w.op("ReduceSum", y, w.constant(np.array([1])), keepdims=1))
    total = w.op("Sum", *ends)
    w.nodes[-1].output[0] = "y"
    assert total
    return w.model({"x": (FLOAT, [16, width])}, {"y": (FLOAT, [16, 1])})


def convolutional(channels: int = 24, size: int = 19) -> onnx.ModelProto:
    """Convolutions of several kinds with odd channel counts, a residual, pooling, concat and a classifier."""
    w = ModelWriter(1)

    def conv(x: str, into: int, out: int, kernel: int, groups: int = 1, stride: int = 1) -> str:
        pads = [kernel // 2] * 4
        weight = w.random(out, into // groups, kernel, kernel)
        return w.op("Conv", x, weight, w.random(out), pads=pads, group=groups, strides=[stride] * 2)

    x = w.op("Relu", conv("x", 3, channels, 3, stride=2))
    y = w.op("Relu", conv(x, channels, channels, 3, groups=channels))
    x = w.op("Relu", w.op("Add", conv(y, channels, channels, 1), x))
    left, right = conv(x, channels, 16, 1), conv(x, channels, 17, 5)
    pooled = w.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    x = w.op("Concat", left, right, pooled, axis=1)
    x = w.op("Flatten", w.op("GlobalAveragePool", x))
    x = w.op("Gemm", x, w.random(10, 33 + channels), w.random(10), transB=1)
    w.op("Softmax", x, axis=-1)
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, ["n", 3, size, size])}, {"y": (FLOAT, ["n", 10])})


def attention(tokens: int = 12, width: int = 32, heads: int = 4) -> onnx.ModelProto:
    """One transformer layer over x [1, tokens, width] as exporters write it."""
    w = ModelWriter(2)

    def linear(x: str, into: int, out: int) -> str:
        return w.op("Add", w.random(out), w.op("MatMul", x, w.random(into, out)))

    def norm(x: str) -> str:
        return w.op("LayerNormalization", x, w.random(width), w.random(width), axis=-1)

    split = w.constant(np.array([1, tokens, heads, width // heads]))
    q, k, v = (w.op("Reshape", linear("x", width, width), split) for _ in range(3))
    q, v = (w.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
    k = w.op("Transpose", k, perm=[0, 2, 3, 1])
    scores = w.op("Div", w.op("MatMul", q, k), w.constant(np.array(np.sqrt(width // heads), np.float32)))
    mixed = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    mixed = w.op("Reshape", mixed, w.constant(np.array([1, tokens, width])))
    x = norm(w.op("Add", linear(mixed, width, width), "x"))
    wide = linear(x, width, 4 * width)
    erf = w.op("Erf", w.op("Div", wide, w.constant(np.array(np.sqrt(2), np.float32))))
    grown = w.op(
        "Mul",
        w.op("Mul", wide, w.op("Add", erf, w.constant(np.array(1, np.float32)))),
        w.constant(np.array(0.5, np.float32)),
    )
    x = norm(w.op("Add", linear(grown, 4 * width, width), x))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, [1, tokens, width])}, {"y": (FLOAT, [1, tokens, width])})


def data_dependent() -> onnx.ModelProto:
    """The positive entries of x [n], doubled: an output shape that depends on data."""
    w = ModelWriter(3)
    where = w.op("NonZero", w.op("Greater", "x", w.constant(np.array(0, np.float32))))
    rows = w.op("Transpose", where, perm=[1, 0])
    picked = w.op("GatherND", "x", rows)
    w.op("Mul", picked, w.constant(np.array(2, np.float32)))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, ["n"])}, {"y": (FLOAT, ["m"])})


def add(dtype: int = FLOAT, shape: tuple[Any, ...] = (2, 3)) -> onnx.ModelProto:
    """y = a + b."""
    w = ModelWriter(4)
    w.op("Add", "a", "b")
    w.nodes[-1].output[0] = "y"
    form = (dtype, list(shape))
    return w.model({"a": form, "b": form}, {"y": form})


MODELS = {"branches": branches, "convolutional": convolutional, "attention": attention}


def inputs_for(model: onnx.ModelProto, seed: int = 0, n: int = 2) -> dict[str, Array]:
    """Random fp32 inputs; symbolic dimensions are `n`."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.standard_normal([d.dim_value or n for d in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }


def wanted(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of the onnx package's reference implementation."""
    from onnx.reference import ReferenceEvaluator

    names = [output.name for output in model.graph.output]
    return dict(zip(names, ReferenceEvaluator(model).run(names, inputs), strict=True))
