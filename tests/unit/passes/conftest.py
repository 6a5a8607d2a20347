"""Small graphs for the tests of passes, and the check that a pass keeps their meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from treadle import dtypes
from treadle.graph.graph import Graph, link
from treadle.graph.guard import evaluate as evaluate_size
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.ops.evaluate import evaluate
from treadle.ops.sizes import add_sizes
from treadle.passes.base import Pass, PassContext
from treadle.passes.infer_shapes import InferShapes
from treadle.passes.specialize import copy_graph
from treadle.plan.target import Target

TARGET = Target("generic", "x86_64-unknown-linux-gnu", "x86-64", "", 16, 16, 1 << 15, 1 << 20, 1 << 25)


class Writer:
    """Writes a graph: each op called as a method gives its (first) result."""

    def __init__(self) -> None:
        self.graph = Graph("test")
        self.rng = np.random.default_rng(7)

    def input(self, *shape: int, name: str = "x", dtype: dtypes.DType = dtypes.f32) -> Value:
        return self.graph.input(name, dtype, shape)

    def constant(self, data: Any, dtype: Any = np.float32) -> Value:
        return self.graph.constant(np.asarray(data, dtype), "c")

    def weights(self, *shape: int) -> Value:
        return self.constant(self.rng.standard_normal(shape))

    def ints(self, *numbers: int) -> Value:
        return self.constant(numbers, np.int64)

    def sizes(self, *dims: int) -> Value:
        """A vector of sizes: a constant, or the result of a `sizes` node where there are expressions."""
        elements = np.empty(len(dims), object)
        elements[:] = dims
        made = add_sizes(self.graph, elements, dtypes.i64, "sizes")
        if isinstance(made, Value):
            return made
        self.graph.nodes.append(made)
        link(made)
        return made.output

    def node(self, op: str, *inputs: Value | None, outputs: int = 1, name: str = "", **attrs: Any) -> Node:
        return self.graph.add(op, inputs, attrs, name=name or f"{op}{len(self.graph.nodes)}", outputs=outputs)

    def op(self, op: str, *inputs: Value | None, name: str = "", **attrs: Any) -> Value:
        return self.node(op, *inputs, name=name, **attrs).output

    def conv(self, x: Value, channels: tuple[int, int], bias: Value | None = None, size: int = 1) -> Value:
        weights = self.weights(channels[1], channels[0], size, size)
        pads = (size // 2,) * 4
        return self.op("conv", x, weights, bias, strides=(1, 1), pads=pads, dilations=(1, 1), groups=1)

    def matmul(self, a: Value, b: Value, **attrs: Any) -> Value:
        return self.op("matmul", a, b, **{"transpose_a": False, "transpose_b": False, **attrs})

    def done(self, *outputs: Value) -> Graph:
        self.graph.outputs = list(outputs)
        InferShapes().run(self.graph, PassContext(TARGET))
        return self.graph


def random_inputs(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs of `graph` that no op finds impossible: floats around 0, integers 0 to 2."""
    rng = np.random.default_rng(11)
    arrays = {}
    for value in graph.inputs:
        shape = value.static_shape
        numbers = rng.standard_normal(shape) if value.known_dtype.is_float else rng.integers(0, 3, shape)
        arrays[value.name] = numbers.astype(value.known_dtype.numpy)
    return arrays


def results(graph: Graph, inputs: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    found = evaluate(graph, inputs)
    return [found[value.name] for value in graph.outputs]


def bound(graph: Graph, values: Mapping[str, int]) -> Graph:
    """A copy of `graph` for `values` of the symbols."""

    def numbers(dims: Sequence[Any]) -> tuple[int, ...]:
        return tuple(evaluate_size(dim, dict(values)) for dim in dims)

    copy = copy_graph(graph, {value.name: numbers(value.static_shape) for value in graph.inputs})
    for node in copy.nodes:
        if node.op == "sizes":
            node.attrs = {**node.attrs, "elements": numbers(node.attrs["elements"])}
    return copy


def computing(graph: Graph) -> list[Node]:
    """The nodes but those that hold sizes."""
    return [node for node in graph.nodes if node.op != "sizes"]


@pytest.fixture
def write() -> Writer:
    return Writer()


@pytest.fixture
def context() -> PassContext:
    return PassContext(TARGET)


@pytest.fixture
def exact() -> PassContext:
    return PassContext(TARGET, math="exact")


@pytest.fixture
def apply(context: PassContext) -> Callable[..., list[str]]:
    """Runs passes on a graph, checks that it stays valid and means the same, and returns the ops that are left."""

    def run(graph: Graph, *passes: Pass, context: PassContext = context) -> list[str]:
        before = copy_graph(graph)
        inputs = random_inputs(before)
        for step in passes:
            step.run(graph, context)
            verify(graph)
        same_results(results(before, inputs), results(graph, inputs))
        return [node.op for node in graph.nodes]

    return run


@pytest.fixture
def same() -> Callable[[Graph, Graph], None]:
    """Asserts that two graphs compute the same from the same random inputs."""

    def check(before: Graph, after: Graph) -> None:
        inputs = random_inputs(before)
        same_results(results(before, inputs), results(after, inputs))

    return check


def same_results(wanted: Sequence[np.ndarray[Any, Any]], got: Sequence[np.ndarray[Any, Any]]) -> None:
    assert len(wanted) == len(got)
    for left, right in zip(wanted, got, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-5)
