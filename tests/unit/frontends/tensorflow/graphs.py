"""Builds GraphDefs for tests from treadle's messages, without TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.dtypes import BY_NAME, DType, f32, from_numpy, i32
from treadle.frontends.tensorflow.messages import AttrValue, GraphDef
from treadle.frontends.tensorflow.node import attr_value
from treadle.frontends.tensorflow.tensors import NUMBERS, shape_message


def attr(value: Any) -> Any:
    """`value` as an AttrValue, which it may be already."""
    return value if isinstance(value, AttrValue) else attr_value(value)


def function_attr(name: str) -> Any:
    """An AttrValue that names a function."""
    message = AttrValue()
    message.func.name = name
    return message


class Writer:
    """Writes a GraphDef; each method gives the name of the tensor that it made."""

    def __init__(self) -> None:
        self.graph = GraphDef()
        self.rng = np.random.default_rng(5)
        self.graph.versions.producer = 27

    def node(self, op: str, *inputs: str, name: str = "", T: DType | None = f32, **attrs: Any) -> str:  # noqa: N803
        name = name or f"{op}_{len(self.graph.node)}"
        made = self.graph.node.add(name=name, op=op, input=inputs)
        for key, value in {**({} if T is None else {"T": T}), **attrs}.items():
            made.attr[key].CopyFrom(attr(value))
        return name

    def input(self, name: str, shape: tuple[int | None, ...] | None, dtype: str = "f32") -> str:
        return self.node("Placeholder", name=name, T=None, dtype=BY_NAME[dtype], shape=_shape(shape))

    def constant(self, data: Any, dtype: Any = None, name: str = "") -> str:
        array = np.asarray(data, dtype)
        return self.node("Const", name=name, T=None, dtype=from_numpy(array.dtype), value=array)

    def ints(self, *numbers: int) -> str:
        return self.constant(numbers, np.int32)

    def weights(self, *shape: int) -> str:
        fan = max(1, int(np.prod(shape[:-1])))
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def conv(self, x: str, kernel: tuple[int, ...], stride: int = 1, op: str = "Conv2D", padding: str = "SAME") -> str:
        strides = [1, stride, stride, 1]
        return self.node(
            op, x, self.weights(*kernel), strides=strides, padding=padding, data_format="NHWC", dilations=[1] * 4
        )

    def norm(self, x: str, channels: int) -> str:
        scale, variance = (self.constant(self.rng.random(channels).astype(np.float32) + 0.5) for _ in range(2))
        offset, mean = (self.constant(self.rng.standard_normal(channels).astype(np.float32)) for _ in range(2))
        return self.node(
            "FusedBatchNormV3",
            x,
            scale,
            offset,
            mean,
            variance,
            U=f32,
            epsilon=1e-3,
            data_format="NHWC",
            is_training=False,
        )

    def function(
        self, name: str, inputs: dict[str, DType], outputs: dict[str, str], nodes: list[tuple[Any, ...]]
    ) -> None:
        """A function. `outputs` are "<node>:<output>:<index>"; `nodes` are (name, op, inputs, attrs)."""
        made = self.graph.library.function.add()
        made.signature.name = name
        for argument, dtype in inputs.items():
            made.signature.input_arg.add(name=argument, type=NUMBERS[dtype])
        for result, ref in outputs.items():
            made.signature.output_arg.add(name=result, type=NUMBERS[f32])
            made.ret[result] = ref
        for node, op, reads, attrs in nodes:
            item = made.node_def.add(name=node, op=op, input=reads)
            for key, value in attrs.items():
                item.attr[key].CopyFrom(attr(value))

    def bytes(self) -> bytes:
        return self.graph.SerializeToString()


def _shape(shape: tuple[int | None, ...] | None) -> Any:
    message = AttrValue()
    message.shape.CopyFrom(shape_message(shape))
    return message


def mobile(size: int = 64, batch: int | None = 1, explicit_pads: bool = True) -> Writer:
    """A network of inverted residuals, as MobileNet has them: NHWC, relu6, batch norm, pads of their own nodes."""
    w = Writer()
    x = w.input("images", (batch, size, size, 3))
    x = w.node("Sub", w.node("Mul", x, w.constant(np.float32(2.0))), w.constant(np.float32(1.0)))
    x = w.node("Relu6", w.norm(w.conv(x, (3, 3, 3, 16), 2), 16))
    channels = 16
    for out, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1)):
        wide = channels * 4
        y = w.node("Relu6", w.norm(w.conv(x, (1, 1, channels, wide)), wide))
        padding = "SAME"
        if stride == 2 and explicit_pads:
            y = w.node("Pad", y, w.constant([[0, 0], [0, 1], [0, 1], [0, 0]], np.int32))
            padding = "VALID"
        y = w.node("Relu6", w.norm(w.conv(y, (3, 3, wide, 1), stride, "DepthwiseConv2dNative", padding), wide))
        y = w.norm(w.conv(y, (1, 1, wide, out)), out)
        x = w.node("AddV2", x, y) if stride == 1 and out == channels else y
        channels = out
    gate = w.node("Mean", x, w.ints(1, 2), keep_dims=True)
    gate = w.node("Relu", w.node("BiasAdd", w.conv(gate, (1, 1, channels, 8)), w.weights(8)))
    gate = w.node("Sigmoid", w.node("BiasAdd", w.conv(gate, (1, 1, 8, channels)), w.weights(channels)))
    x = w.node("Mul", x, gate)
    x = w.node(
        "ConcatV2",
        x,
        w.node("MaxPool", x, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME"),
        w.constant(3, np.int32),
        N=2,
    )
    x = w.node("Relu6", w.norm(w.conv(x, (1, 1, 2 * channels, 128)), 128))
    x = w.node("Mean", x, w.ints(1, 2), keep_dims=False)
    x = w.node("BiasAdd", w.node("MatMul", x, w.weights(128, 10), transpose_a=False, transpose_b=False), w.weights(10))
    w.node("Softmax", x, name="probabilities")
    return w


def loop() -> Writer:
    """A loop as TensorFlow 1 has it: x is multiplied by a factor, which stays the same, while i < n."""
    w = Writer()
    x, n = w.input("x", (None,)), w.input("n", (), "i32")
    how = {"frame_name": "while", "parallel_iterations": 10}
    starts = (w.constant(0, np.int32), x, n, w.constant(np.float32(3.0)))
    names, types = ("i", "x", "n", "f"), (i32, f32, i32, f32)
    for name, start, dtype in zip(names, starts, types, strict=True):
        w.node("Enter", start, name=f"enter_{name}", T=dtype, is_constant=name in "nf", **how)
    for name, dtype in (("i", i32), ("x", f32)):
        step = "next" if name == "x" else f"next_{name}"
        w.node("Merge", f"enter_{name}", step, name=f"merge_{name}", T=dtype, N=2)
    w.node("LoopCond", w.node("Less", "merge_i", "enter_n", T=i32), name="test", T=None)
    for name, dtype in (("i", i32), ("x", f32)):
        w.node("Switch", f"merge_{name}", "test", name="switch" if name == "x" else f"switch_{name}", T=dtype)
    one = w.constant(1, np.int32)
    w.graph.node[-1].input.append("^switch_i")
    w.node("NextIteration", w.node("Add", "switch_i:1", one, T=i32), name="next_i", T=i32)
    w.node("NextIteration", w.node("Mul", "switch:1", "enter_f"), name="next")
    w.node("Exit", "switch", name="exit")
    w.node("Neg", "exit", name="y")
    return w
