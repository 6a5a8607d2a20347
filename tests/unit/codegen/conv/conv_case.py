"""One convolution as a test case: its graph in any layout, run by kernels and by the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tests.kernel_runner import lower_graph, run_graph

from treadle.dtypes import DType, f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.value import Value
from treadle.ops.conv import evaluate_conv
from treadle.ops.window import Window
from treadle.passes.lower.conv.shape import ConvShape
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

EPILOGUES: dict[str, tuple[tuple[str, ...], tuple[tuple[str, tuple[int, ...]], ...]]] = {
    "relu": ((), (("relu", (0,)),)),
    "bias": (("channel",), (("add", (0, 1)),)),
    "bias_clip": (("channel", "scalar", "scalar"), (("add", (0, 1)), ("clip", (4, 2, 3)))),
    "residual_relu": (("full",), (("add", (0, 1)), ("relu", (2,)))),
    "silu": ((), (("sigmoid", (0,)), ("mul", (0, 1)))),
    "gated_residual": (("channel", "full"), (("sigmoid", (0,)), ("mul", (3, 1)), ("add", (4, 2)))),
}
"""Epilogues by name: the kinds of the operands after the first, and the steps."""

FAST_LIMIT = 1e-5
"""The relative L2 error that a layer may have with math="fast"."""


@dataclass(frozen=True)
class Case:
    """A convolution of x [images, channels, *size] with `outputs` kernels of `kernel`."""

    channels: int
    outputs: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    images: int = 1
    bias: bool = True
    epilogue: str = ""
    dtype: DType = f32
    plain_input: bool = False
    plain_output: bool = False
    few_outputs: bool = False
    """A blocked input and a row-major output."""
    computed_weights: bool = False
    math: str = "exact"

    @property
    def attrs(self) -> dict[str, Any]:
        rank = len(self.size)
        attrs: dict[str, Any] = {
            "strides": self.strides or (1,) * rank,
            "pads": self.pads or (0,) * (2 * rank),
            "dilations": self.dilations or (1,) * rank,
            "groups": self.groups,
        }
        if self.epilogue:
            kinds, steps = EPILOGUES[self.epilogue]
            first = 1 + len(kinds)
            attrs["epilogue"] = Expr(
                (self.dtype,) * first,
                tuple(Step(op, args, self.dtype) for op, args in steps),
                (first + len(steps) - 1,),
            )
        return attrs

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        attrs = self.attrs
        window = Window.of(self.kernel, attrs["strides"], attrs["pads"], attrs["dilations"])
        return (self.images, self.outputs, *window.output(self.size))

    def arrays(self) -> tuple[Array, Array, Array | None]:
        """x, w and bias, the same on every call."""
        rng = np.random.default_rng(hash((self.channels, self.outputs, self.size, self.kernel)) % 2**32)
        numpy = self.dtype.numpy
        x = rng.standard_normal((self.images, self.channels, *self.size)).astype(numpy)
        w = rng.standard_normal((self.outputs, self.channels // self.groups, *self.kernel)).astype(numpy)
        bias = rng.standard_normal(self.outputs).astype(numpy) if self.bias else None
        return x, w, bias

    def epilogue_arrays(self, shape: tuple[int, ...]) -> list[Array]:
        """The operands of the epilogue for an output of `shape`."""
        rng = np.random.default_rng(7)
        rank = len(self.size)
        shapes = {"channel": (self.outputs, *(1,) * rank), "scalar": (), "full": shape}
        kinds = EPILOGUES[self.epilogue][0] if self.epilogue else ()
        arrays = [rng.standard_normal(shapes[kind]).astype(self.dtype.numpy) for kind in kinds]
        if self.epilogue == "bias_clip":
            arrays[1:] = [np.asarray(-1.0, self.dtype.numpy), np.asarray(2.0, self.dtype.numpy)]
        return arrays

    def reference(self) -> Array:
        """The result in float64."""
        wide = replace(self, dtype=self.dtype)
        x, w, bias = (None if a is None else a.astype(np.float64) for a in wide.arrays())
        attrs = {key: value for key, value in self.attrs.items() if key != "epilogue"}
        (plain,) = evaluate_conv(attrs, [x, w, bias])
        if not self.epilogue:
            return plain
        values: list[Array] = [plain, *(a.astype(np.float64) for a in self.epilogue_arrays(plain.shape))]
        functions = {
            "add": np.add,
            "mul": np.multiply,
            "relu": lambda a: np.maximum(a, 0.0),
            "sigmoid": lambda a: 1.0 / (1.0 + np.exp(-a)),
            "clip": np.clip,
        }
        for op, args in EPILOGUES[self.epilogue][1]:
            values.append(functions[op](*[values[a] for a in args]))
        return values[-1]

    def graph(self, target: Target) -> tuple[Graph, dict[str, Array]]:
        """The convolution, between reorders where it is blocked, and the inputs by name."""
        graph = Graph()
        lanes = target.lanes(self.dtype)
        given: dict[str, Array] = {}

        def feed(name: str, array: Array, *, blocked: bool) -> Value:
            value = graph.input(name, self.dtype, array.shape)
            given[name] = array
            if not blocked:
                return value
            moved = graph.value(f"{name}.blocked", self.dtype, array.shape)
            moved.layout = Blocked(lanes)
            graph.add("reorder", [value], outputs=[moved])
            return moved

        x, w, bias = self.arrays()
        shape = self.out_shape
        operands: list[Value | None] = [feed("x", x, blocked=not (self.plain_input or self.plain_output))]
        operands.append(feed("w", w, blocked=False) if self.computed_weights else graph.constant(w, "w"))
        operands.append(None if bias is None else graph.constant(bias, "bias"))
        for i, array in enumerate(self.epilogue_arrays(shape)):
            if array.shape == shape:
                operands.append(feed(f"epilogue{i}", array, blocked=not (self.plain_output or self.few_outputs)))
            else:
                operands.append(graph.constant(array, f"epilogue{i}"))
        out = graph.value("out", self.dtype, shape)
        graph.add("conv", operands, self.attrs, outputs=[out])
        graph.outputs = [out]
        if not (self.plain_output or self.few_outputs):
            out.layout = Blocked(lanes)
            plain = graph.value("plain", self.dtype, shape)
            graph.add("reorder", [out], outputs=[plain])
            graph.outputs = [plain]
        return graph, given

    def shape(self, target: Target) -> ConvShape:
        """The sizes of the convolution."""
        graph, _ = self.graph(target)
        (shape,) = (ConvShape.of(node) for node in graph.nodes if node.op == "conv")
        assert shape is not None, "kernels convolve in one and two dimensions"
        return shape

    def families(self, target: Target) -> list[str]:
        """The kernels that the convolution is lowered to."""
        graph, _ = self.graph(target)
        calls, _ = lower_graph(graph, target, self.math)
        return [call.spec.family for call in calls if call.op == "conv" and call.spec is not None]

    def run(self, target: Target, *, reverse_chunks: bool = False) -> Array:
        """The result of the kernels of `target`."""
        graph, given = self.graph(target)
        (result,) = run_graph(graph, given, target=target, reverse_chunks=reverse_chunks, math=self.math).values()
        return result

    def check(self, target: Target) -> None:
        """Asserts that kernels agree with the reference, and that chunks in reverse order give the same bits."""
        result = self.run(target)
        expected = self.reference()
        tolerance = 2e-5 if self.dtype == f32 else 1e-12
        scale = float(np.abs(expected).max()) + 1.0
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * scale)
        self._check_order(target, result)

    def check_error(self, target: Target, limit: float, how: object = "") -> None:
        """Asserts a relative L2 error below `limit`, and that chunks in reverse order give the same bits.

        `how` describes the kernel in the message.
        """
        result = self.run(target)
        expected = self.reference()
        error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
        assert error < limit, f"{how}: relative error {error:.2e}"
        self._check_order(target, result)

    def _check_order(self, target: Target, result: Array) -> None:
        assert np.array_equal(result, self.run(target, reverse_chunks=True)), "the order of chunks changed the result"
