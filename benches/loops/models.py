"""The ONNX models of the benchmark: Loop and Scan with small bodies, and the same without a loop."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benches.loops import recurrent

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
SIZE = 16


def step(before: str, item: str, after: str) -> list[onnx.NodeProto]:
    """The nodes of one iteration: a product, a sum, tanh."""
    return [
        helper.make_node("MatMul", [before, "w"], [f"{after}_product"]),
        helper.make_node("Add", [f"{after}_product", item], [f"{after}_sum"]),
        helper.make_node("Tanh", [f"{after}_sum"], [after]),
    ]


def info(name: str, element: int, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def body(*, condition: bool) -> onnx.GraphProto:
    """The body of a Loop; with `condition` it computes whether there is another iteration."""
    nodes = step("s", "item", "next")
    if condition:
        nodes += [
            helper.make_node("ReduceMax", ["next"], ["greatest"], keepdims=0),
            helper.make_node("Less", ["greatest", "bound"], ["again"]),
        ]
    else:
        nodes.append(helper.make_node("Identity", ["on"], ["again"]))
    inputs = [info("i", INT64), info("on", BOOL), info("s", FLOAT, 1, SIZE)]
    return helper.make_graph(nodes, "body", inputs, [info("again", BOOL), info("next", FLOAT, 1, SIZE)])


def appending() -> onnx.GraphProto:
    """The body of a Loop that appends what it carries to a list."""
    nodes = [*step("s", "item", "next"), helper.make_node("SequenceInsert", ["l", "next"], ["longer"])]
    nodes.append(helper.make_node("Identity", ["on"], ["again"]))
    listed = helper.make_tensor_sequence_value_info("l", FLOAT, None)
    longer = helper.make_tensor_sequence_value_info("longer", FLOAT, None)
    inputs = [info("i", INT64), info("on", BOOL), info("s", FLOAT, 1, SIZE), listed]
    return helper.make_graph(nodes, "body", inputs, [info("again", BOOL), info("next", FLOAT, 1, SIZE), longer])


def counting() -> onnx.GraphProto:
    """The body of a Loop without a limit that stacks what it carries; it ends when its counter is at the end."""
    nodes = [
        *step("s", "item", "next"),
        helper.make_node("Identity", ["next"], ["row"]),
        helper.make_node("Add", ["c", "one"], ["more"]),
        helper.make_node("Less", ["more", "count"], ["again"]),
    ]
    inputs = [info("i", INT64), info("on", BOOL), info("s", FLOAT, 1, SIZE), info("c", INT64)]
    outputs = [info("again", BOOL), info("next", FLOAT, 1, SIZE), info("more", INT64), info("row", FLOAT, 1, SIZE)]
    return helper.make_graph(nodes, "body", inputs, outputs)


def growing() -> onnx.GraphProto:
    """The body of a Loop that appends a row to what it carries, as decoders do with their past."""
    nodes = [
        *step("s", "item", "next"),
        helper.make_node("Concat", ["p", "next"], ["longer"], axis=0),
        helper.make_node("Identity", ["on"], ["again"]),
    ]
    past = helper.make_tensor_value_info("p", FLOAT, None)
    inputs = [info("i", INT64), info("on", BOOL), info("s", FLOAT, 1, SIZE), past]
    longer = helper.make_tensor_value_info("longer", FLOAT, None)
    return helper.make_graph(nodes, "body", inputs, [info("again", BOOL), info("next", FLOAT, 1, SIZE), longer])


def models(iterations: int) -> dict[str, onnx.ModelProto]:
    """The models by name. Each gives y for x [1, SIZE]; that of Scan takes the items of xs."""
    rng = np.random.default_rng(0)
    scanned = helper.make_graph(
        [*step("s", "one", "next"), helper.make_node("Identity", ["next"], ["row"])], "body",
        [info("s", FLOAT, 1, SIZE), info("one", FLOAT, 1, SIZE)],
        [info("next", FLOAT, 1, SIZE), info("row", FLOAT, 1, SIZE)],
    )  # fmt: skip
    loops = {
        "Loop": [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body(condition=False))],
        "while": [helper.make_node("Loop", ["count", "yes", "x"], ["y"], body=body(condition=True))],
        "list": [
            helper.make_node("SequenceEmpty", [], ["none"]),
            helper.make_node("Loop", ["count", "", "x", "none"], ["y", "rows"], body=appending()),
            helper.make_node("ConcatFromSequence", ["rows"], ["ys"], axis=0),
        ],
        "stacked": [helper.make_node("Loop", ["", "yes", "x", "zero"], ["y", "end", "ys"], body=counting())],
        "growing": [helper.make_node("Loop", ["count", "", "x", "x"], ["y", "ys"], body=growing())],
        "Scan": [helper.make_node("Scan", ["x", "xs"], ["y", "ys"], body=scanned, num_scan_inputs=1)],
        "nodes": [
            node
            for number in range(iterations)
            for node in step(
                f"y{number}" if number else "x", "item", f"y{number + 1}" if number + 1 < iterations else "y"
            )
        ],
    }
    constants = {
        "w": (rng.standard_normal((SIZE, SIZE)) / SIZE).astype(np.float32),
        "item": rng.standard_normal((1, SIZE)).astype(np.float32),
        "count": np.array(iterations),
        "zero": np.array(0),
        "one": np.array(1),
        "yes": np.array(True),
        "bound": np.array(2, np.float32),
    }
    found = {}
    for name, nodes in loops.items():
        inputs = [info("x", FLOAT, 1, SIZE)]
        outputs = [info("y", FLOAT, 1, SIZE)]
        if name == "Scan":
            inputs.append(info("xs", FLOAT, iterations, 1, SIZE))
            outputs.append(info("ys", FLOAT, iterations, 1, SIZE))
        if name in ("list", "stacked", "growing"):
            outputs.append(helper.make_tensor_value_info("ys", FLOAT, None))
        weights = [numpy_helper.from_array(array, key) for key, array in constants.items()]
        graph = helper.make_graph(nodes, name, inputs, outputs, weights)
        found[name] = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return found


def recurrent_scan(iterations: int) -> onnx.ModelProto:
    """The network of `recurrent` as an ONNX Scan."""
    held = [numpy_helper.from_array(array, name) for name, array in recurrent.weights().items()]
    held.append(numpy_helper.from_array(np.zeros((1, recurrent.SIZE), np.float32), "first"))
    nodes = [
        helper.make_node("MatMul", ["item", "w_x"], ["from_item"]),
        helper.make_node("MatMul", ["h", "w_h"], ["from_h"]),
        helper.make_node("Add", ["from_item", "from_h"], ["both"]),
        helper.make_node("Add", ["both", "bias"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["next"]),
        helper.make_node("Identity", ["next"], ["row"]),
    ]

    h, item, after, row = (info(name, FLOAT, 1, recurrent.SIZE) for name in ("h", "item", "next", "row"))
    scanned = helper.make_graph(nodes, "body", [h, item], [after, row])
    node = helper.make_node("Scan", ["first", "x"], ["last", "y"], body=scanned, num_scan_inputs=1)
    x, y = (info(name, FLOAT, iterations, 1, recurrent.SIZE) for name in ("x", "y"))
    graph = helper.make_graph([node], "recurrent", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
