"""First loads of graphs of many small ops: CPU time an op, which should not grow with their number.

    python -m benches.loading.graphs [--ops 1000,10000,100000] [--json FILE]

`scalar` is a chain of scalar ops, `products` one of products and scalar ops with one weight, `outputs` ops beside each
other, each of which makes an output, of which a model may have 65,536. Loads compile in this process, into an empty
cache folder and after all imports.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import treadle
from benches.harness.report import machine, numbers, parser, print_header, print_row, write_json
from treadle.frontends.onnx.check import MAX_PORTS

_SCALAR = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs")


def _model(nodes: list[onnx.NodeProto], outputs: list[str], weights: dict[str, np.ndarray]) -> bytes:
    shape = [4, 4]
    graph = helper.make_graph(
        nodes,
        "many",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in outputs],
        [numpy_helper.from_array(weight, name) for name, weight in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def scalar(ops: int) -> bytes:
    """A chain of scalar ops."""
    nodes = [helper.make_node(_SCALAR[i % len(_SCALAR)], [f"v{i}"], [f"v{i + 1}"]) for i in range(ops)]
    return _model(nodes, [f"v{ops}"], {})


def products(ops: int) -> bytes:
    """A chain of matrix products with one weight and scalar ops by turns."""
    nodes = [
        helper.make_node("MatMul", [f"v{i}", "weight"], [f"v{i + 1}"])
        if i % 2
        else helper.make_node(_SCALAR[i // 2 % len(_SCALAR)], [f"v{i}"], [f"v{i + 1}"])
        for i in range(ops)
    ]
    return _model(nodes, [f"v{ops}"], {"weight": np.eye(4, dtype=np.float32)})


def outputs(ops: int) -> bytes:
    """Sums of one input and constants, each an output."""
    nodes = [helper.make_node("Add", ["v0", f"c{i}"], [f"y{i}"]) for i in range(ops)]
    constants = {f"c{i}": np.full(4, i, np.float32) for i in range(ops)}
    return _model(nodes, [f"y{i}" for i in range(ops)], constants)


GRAPHS: dict[str, Callable[[int], bytes]] = {"scalar": scalar, "products": products, "outputs": outputs}


def load_seconds(model: bytes) -> float:
    """The CPU time of a first load in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TREADLE_CACHE"] = folder
        start = time.process_time()
        treadle.Session(model)
        return time.process_time() - start


def main() -> int:
    options = parser(__doc__, rounds=1, threads="1")
    options.add_argument("--ops", type=numbers, default=[1000, 10_000, 100_000], help="sizes of graphs, by comma")
    arguments = options.parse_args()
    os.environ["TREADLE_OUT_OF_PROCESS"] = "off"
    treadle.threads.set(intra_op=1, inter_op=1)
    print(f"{machine()}; CPU time of first loads, without imports")
    print_header("graph", "ops", "s", "us an op")
    results = []
    for name, make in GRAPHS.items():
        load_seconds(make(10))  # imports
        for ops in arguments.ops:
            if name == "outputs" and ops > MAX_PORTS:
                continue
            seconds = load_seconds(make(ops))
            print_row([name, str(ops), f"{seconds:.2f}", f"{1e6 * seconds / ops:.0f}"])
            results.append({"graph": name, "ops": ops, "seconds": seconds})
    write_json(arguments.json, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
