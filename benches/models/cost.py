"""Lower bounds for a model: floating-point operations and bytes, counted in its graph before optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from treadle.codegen.target import detect
from treadle.frontends import load
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.base import PassContext
from treadle.passes.infer_shapes import InferShapes
from treadle.passes.pipeline import infer
from treadle.passes.specialize import specialize


@dataclass(frozen=True, slots=True)
class Cost:
    """The operations and bytes of one run.

    `operations` are those of matrix products and direct convolutions, 2 for a multiply-add; of bytes a quarter of that,
    because one instruction adds four products of bytes in the time of one of fp32. `weights` is in bytes.
    """

    operations: int
    weights: int


def cost(path: str, shapes: dict[str, tuple[int, ...]]) -> Cost:
    """Returns the cost of one run of the model `path` with inputs of `shapes`."""
    model = load(path)
    assert isinstance(model, Graph), "an ONNX model"
    graph = specialize(model, shapes)
    context = PassContext(detect())
    infer(graph, context)
    InferShapes().run(graph, context)
    # What follows sizes that depend on data is not counted.
    nodes = [node for node in graph.nodes if all(value.shape is not None for value in node.outputs)]
    read: dict[Value, int] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value.data is not None:
                read[value] = max(read.get(value, 0), _bytes_read(node, value))
    return Cost(sum(map(_operations, nodes)), sum(read.values()))


def _bytes_read(node: Node, value: Value) -> int:
    """Returns the bytes of a constant that a node reads: the rows that a gather takes, or all of it."""
    size = value.known_dtype.size
    whole = prod(value.static_shape) * size
    return min(prod(node.output.static_shape) * size, whole) if node.op == "gather" else whole


def _operations(node: Node) -> int:
    """Returns the operations of a node; 0 without a matrix product, because memory or other nodes limit it."""
    if node.op in {"lstm", "gru", "rnn"}:
        (time, batch, _, _), weights = node.operand(0).static_shape, node.operand(1).static_shape
        return 2 * time * batch * prod(weights)
    if node.op not in {"matmul", "conv"}:
        return 0
    left, right = (node.operand(number).static_shape for number in (0, 1))
    depth = prod(right[1:]) if node.op == "conv" else left[-2 if node.attrs.get("transpose_a") else -1]
    together = 4 if node.operand(0).dtype in BYTES else 1
    return 2 * prod(node.outputs[0].static_shape) * depth // together
