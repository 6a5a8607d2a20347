"""Loops with small bodies beside ONNX Runtime: what an iteration costs beside the kernels of its body.

    python -m benches.loops.compare [--iterations N] [--rounds N] [--seconds S] [--threads N,...] [--json FILE]

Each engine has a process of its own for each model, and the processes take turns. `Loop` and `Scan` run the body;
`nodes` is the same computation without a loop: the body's nodes once for each iteration. The difference of the two
latencies is what the loop costs. `while` is the Loop with a condition that every iteration computes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benches.harness.process import Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import time_by_turns

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
SIZE = 16
ENGINES = ("treadle", "onnxruntime")


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
        weights = [numpy_helper.from_array(array, key) for key, array in constants.items()]
        graph = helper.make_graph(nodes, name, inputs, outputs, weights)
        found[name] = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return found


def main() -> None:
    options = parser(__doc__, rounds=5, seconds=0.3, threads="1,2")
    options.add_argument("--iterations", type=int, default=1000)
    arguments = options.parse_args()
    iterations: int = arguments.iterations
    results: dict[str, dict[str, float]] = {}
    print(f"{machine()}; {iterations} iterations, us an iteration")
    print_header("threads", "model", *ENGINES, "ratio")
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(1)
        feeds = {"x": rng.standard_normal((1, SIZE)).astype(np.float32)}
        for name, model in models(iterations).items():
            Path(folder, f"{name}.onnx").write_bytes(model.SerializeToString())
            given = feeds | ({"xs": np.zeros((iterations, 1, SIZE), np.float32)} if name == "Scan" else {})
            np.savez(Path(folder, f"{name}.npz"), allow_pickle=False, **given)
        for threads in arguments.threads:
            for name in models(iterations):
                declared = [
                    Engine(
                        engine,
                        "benches.rivals.worker:engine",
                        {
                            "name": engine,
                            "model": str(Path(folder, f"{name}.onnx")),
                            "threads": threads,
                            "inputs": str(Path(folder, f"{name}.npz")),
                            "outputs": str(Path(folder, f"{name}.{engine}.npz")),
                            "precision": "f32",
                        },
                        required=engine == "treadle",
                    )
                    for engine in ENGINES
                ]
                with running(declared) as processes:
                    timings = time_by_turns(processes, arguments.rounds, arguments.seconds)
                found = {engine: timing.median_ns / iterations / 1000 for engine, timing in timings.items()}
                results[f"{name}, {threads} threads"] = found
                ratio = f"{found['onnxruntime'] / found['treadle']:.2f}" if len(found) > 1 else ""
                cells = [f"{found[engine]:.2f}" if engine in found else "" for engine in ENGINES]
                print_row([threads, name, *cells, ratio])
    write_json(arguments.json, iterations=iterations, us_per_iteration=results)


if __name__ == "__main__":
    main()
