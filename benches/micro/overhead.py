"""The overhead of graphs: chains and fans of tiny ops, and many small products.

    python -m benches.micro.overhead [--only NAME] [--rounds N] [--threads N] [--precision f32|bf16]

A session runs each case, an ONNX graph, with one thread and with several; the rounds of the two are interleaved.
Figures are the shortest run of all rounds, in us, and its part for each node, in ns. `empty` is a graph of one op, so
it shows the cost of any run. Outputs are checked against NumPy before timing.

`limit us` is the goal. At f32 the goals of products are below the limit of the multiply-add units of two Zen 4 cores,
72 and 573 us: only bf16 reaches them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import treadle

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
NODES = 1000
PRODUCTS = 256
RTOL, ATOL = {"f32": 2e-3, "bf16": 2e-2}, {"f32": 1e-4, "bf16": 0.15}
"""The largest accepted distance from NumPy's outputs, sums of 64 products of normal numbers."""


@dataclass(frozen=True)
class Case:
    """A model, its inputs and right outputs, its number of nodes, and the most microseconds that a run may take."""

    model: bytes
    feed: Feed
    wanted: list[Array]
    nodes: int
    limit_us: float


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Array] | None = None,
) -> bytes:
    """A float32 model with the given nodes, inputs, outputs and initializers."""

    def info(ports: Mapping[str, tuple[int, ...]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items()]

    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "overhead", info(inputs), info(outputs), initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def empty() -> Case:
    """One addition of eight elements."""
    x = np.ones(8, np.float32)
    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], {"x": (8,)}, {"y": (8,)})
    return Case(model, {"x": x}, [x + x], 1, 5)


def dependent() -> Case:
    """A chain of additions and multiplications by constants, which fuses into one loop."""
    constants: dict[str, Array] = {"half": np.array(0.5, np.float32), "one": np.ones(8, np.float32)}
    x: Array = np.linspace(-1, 1, 8, dtype=np.float32)
    nodes, wanted = [], x
    for i in range(NODES):
        other = ("one", "half")[i % 2]
        nodes.append(helper.make_node(("Add", "Mul")[i % 2], [f"v{i}" if i else "x", other], [f"v{i + 1}"]))
        wanted = (wanted + constants[other]) if i % 2 == 0 else (wanted * constants[other])
    model = model_of(nodes, {"x": (8,)}, {f"v{NODES}": (8,)}, constants)
    return Case(model, {"x": x}, [wanted], NODES, 10)


def dependent_alternating() -> Case:
    """A chain of softmax and transpose over eight elements, of which no two fuse."""
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    nodes, wanted = [], x
    for i in range(NODES):
        source, target = f"v{i}" if i else "x", f"v{i + 1}"
        if i % 2 == 0:
            nodes.append(helper.make_node("Softmax", [source], [target], axis=1))
            powers = np.exp(wanted - wanted.max(1, keepdims=True))
            wanted = powers / powers.sum(1, keepdims=True)
        else:
            nodes.append(helper.make_node("Transpose", [source], [target], perm=[1, 0]))
            wanted = wanted.T
    shape = wanted.shape
    return Case(model_of(nodes, {"x": x.shape}, {f"v{NODES}": shape}), {"x": x}, [wanted], NODES, 100)


def independent() -> Case:
    """Additions of one input and different constants, joined by one Concat."""
    x = np.linspace(0.1, 1, 8, dtype=np.float32)
    constants = {f"c{i}": np.arange(i, i + 8, dtype=np.float32) for i in range(NODES)}
    nodes = [helper.make_node("Add", ["x", f"c{i}"], [f"v{i}"]) for i in range(NODES)]
    nodes.append(helper.make_node("Concat", [f"v{i}" for i in range(NODES)], ["y"], axis=0))
    wanted = np.concatenate([x + constant for constant in constants.values()])
    return Case(model_of(nodes, {"x": (8,)}, {"y": (8 * NODES,)}, constants), {"x": x}, [wanted], NODES, 60)


def independent_unlike() -> Case:
    """Functions of one input and different constants, of five kinds in turn, joined by one Concat."""
    x = np.linspace(0.1, 1, 8, dtype=np.float32)
    ops: list[tuple[str, Callable[[Array, Array], Array]]] = [
        ("Add", np.add), ("Mul", np.multiply), ("Max", np.maximum), ("Min", np.minimum), ("Sub", np.subtract),
    ]  # fmt: skip
    constants = {f"c{i}": np.arange(i, i + 8, dtype=np.float32) / NODES for i in range(NODES)}
    nodes = [helper.make_node(ops[i % len(ops)][0], ["x", f"c{i}"], [f"v{i}"]) for i in range(NODES)]
    nodes.append(helper.make_node("Concat", [f"v{i}" for i in range(NODES)], ["y"], axis=0))
    wanted = np.concatenate([ops[i % len(ops)][1](x, constants[f"c{i}"]) for i in range(NODES)])
    return Case(model_of(nodes, {"x": (8,)}, {"y": (8 * NODES,)}, constants), {"x": x}, [wanted], NODES, 60)


def independent_inputs() -> Case:
    """Additions of different constants to slices of the input, joined by one Concat."""
    x = np.linspace(-1, 1, 8 * NODES, dtype=np.float32).reshape(NODES, 8)
    constants = {f"c{i}": np.arange(i, i + 8, dtype=np.float32) for i in range(NODES)}
    nodes = [helper.make_node("Split", ["x"], [f"s{i}" for i in range(NODES)], axis=0)]
    nodes += [helper.make_node("Add", [f"s{i}", f"c{i}"], [f"v{i}"]) for i in range(NODES)]
    nodes.append(helper.make_node("Concat", [f"v{i}" for i in range(NODES)], ["y"], axis=0))
    wanted = x + np.stack(list(constants.values()))
    return Case(model_of(nodes, {"x": (NODES, 8)}, {"y": (NODES, 8)}, constants), {"x": x}, [wanted], NODES, 60)


def products(size: int, limit_us: float, *, separate: bool = False) -> Case:
    """Independent products of one square matrix and different weights, joined by one Concat or each an output."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size, size)).astype(np.float32)
    weights = {f"w{i}": rng.standard_normal((size, size)).astype(np.float32) for i in range(PRODUCTS)}
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"v{i}"]) for i in range(PRODUCTS)]
    wanted = [x @ weight for weight in weights.values()]
    outputs = {f"v{i}": (size, size) for i in range(PRODUCTS)}
    if not separate:
        nodes.append(helper.make_node("Concat", list(outputs), ["y"], axis=0))
        wanted, outputs = [np.concatenate(wanted)], {"y": (PRODUCTS * size, size)}
    return Case(model_of(nodes, {"x": (size, size)}, outputs, weights), {"x": x}, wanted, PRODUCTS, limit_us)


def diamonds() -> Case:
    """Layers of two softmaxes of the sum of the two before them: tasks that do not form chains."""
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)

    def softmax(a: Array, axis: int) -> Array:
        powers: Array = np.exp(a - a.max(axis, keepdims=True))
        shares: Array = powers / powers.sum(axis, keepdims=True)
        return shares

    nodes, wanted, source = [], x, "x"
    for i in range(NODES // 3):
        nodes += [helper.make_node("Softmax", [source], [f"s{i}.{axis}"], axis=axis) for axis in (0, 1)]
        nodes.append(helper.make_node("Add", [f"s{i}.0", f"s{i}.1"], [f"v{i}"]))
        wanted, source = softmax(wanted, 0) + softmax(wanted, 1), f"v{i}"
    return Case(model_of(nodes, {"x": x.shape}, {source: x.shape}), {"x": x}, [wanted], len(nodes), 100)


CASES: dict[str, Callable[[], Case]] = {
    "empty": empty,
    "1000 dependent": dependent,
    "1000 dependent, unfusable": dependent_alternating,
    "999 in diamonds, unfusable": diamonds,
    "1000 independent": independent,
    "1000 independent, unlike": independent_unlike,
    "1000 independent, sliced": independent_inputs,
    "256 products of 32x32": lambda: products(32, 60),
    "256 products of 64x64": lambda: products(64, 350),
    "256 of 32x32, 256 outputs": lambda: products(32, 120, separate=True),
}


def best_us(session: treadle.Session, feed: Feed, threads: tuple[int, ...], rounds: int) -> list[float]:
    """Returns the shortest run in us for each number of threads."""
    best = [float("inf")] * len(threads)
    for _ in range(rounds):
        for k, count in enumerate(threads):
            for _ in range(20):
                begin = time.perf_counter_ns()
                session.run(feed, intra_op=count, inter_op=count)
                best[k] = min(best[k], (time.perf_counter_ns() - begin) / 1e3)
    return best


def main() -> None:
    """Measures the cases that the command line names and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    asked = parser.parse_args()
    rtol, atol = RTOL[asked.precision], ATOL[asked.precision]
    threads = tuple(sorted({1, asked.threads}))
    print(f"{'case':28} {'limit us':>8} " + " ".join(f"{f'us at {count}':>9} {'ns a node':>9}" for count in threads))
    for name, make in CASES.items():
        if asked.only not in name:
            continue
        case = make()
        session = treadle.Session(case.model, precision=asked.precision)
        for came, wanted in zip(session.run(case.feed).values(), case.wanted, strict=True):
            np.testing.assert_allclose(came, wanted, rtol=rtol, atol=atol)
        found = best_us(session, case.feed, threads, asked.rounds)
        print(f"{name:28} {case.limit_us:8.0f} " + " ".join(f"{us:9.1f} {us * 1e3 / case.nodes:9.1f}" for us in found))


if __name__ == "__main__":
    main()
