"""Bodies of ONNX models: If, Loop, Scan and SequenceMap, with sizes that are known and with such that data decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import treadle
from tests.bodies.kinds import OTHER, SIZE, STEP, WIDE, Array, Kind, Run, given, products, transposes, weights
from tests.models.small import FLOAT, ModelWriter, node, side

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
MOST_ROWS = 1 << 22
"""Of what a Scan is given for an endless run: more than it reaches."""

Nodes = Sequence[NodeProto]
Wrap = Callable[[int, Nodes], Nodes]
"""(level, nodes that make y<level - 1> of x<level - 1>) -> nodes that make y<level> of x<level>."""


def formal(name: str, kind: int = FLOAT, shape: Sequence[int] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(name: str, nodes: Nodes, inputs: Sequence[Any], *outputs: str) -> GraphProto:
    return helper.make_graph(list(nodes), name, inputs, [helper.make_empty_tensor_value_info(each) for each in outputs])


def loop(level: int, nodes: Nodes, *, limit: str = "once") -> Nodes:
    inner = level - 1
    formals = [formal(f"i{level}", INT64, []), formal(f"on{level}", BOOL, []), formal(f"x{inner}")]
    again = node("Identity", [f"on{level}"], f"again{level}")
    body = graph("body", [*nodes, again], formals, f"again{level}", f"y{inner}")
    return [node("Loop", [limit, "", f"x{level}"], f"y{level}", body=body)]


def product(x: str = "x0") -> Nodes:
    return [node("MatMul", [x, "w"], STEP), node("Tanh", [STEP], "y0")]


def chosen(x: str, to: str, level: int) -> Nodes:
    """The rows of x with sums that are not huge, which are all; the model does not know that."""
    return [
        node("ReduceSum", [x, "one"], f"sums{level}", keepdims=0),
        node("Less", [f"sums{level}", "huge"], f"mask{level}"),
        node("Compress", [x, f"mask{level}"], to, axis=0),
    ]


def loop_that_finds(level: int, nodes: Nodes) -> Nodes:
    found = chosen(f"x{level}", f"found{level}", level)
    (repeated,) = loop(level, nodes)
    repeated.input[2] = f"found{level}"
    return [*found, repeated]


def turning(level: int, nodes: Nodes) -> Nodes:
    """A loop that transposes what the bodies inside it give."""
    turned = [*nodes, node("Transpose", [f"y{level - 1}"], f"turned{level}", perm=[1, 0])]
    (made,) = loop(level, turned)
    made.attribute[0].g.output[1].name = f"turned{level}"
    return [made]


def branch(level: int, nodes: Nodes) -> Nodes:
    inner = level - 1
    yes = side([node("Identity", [f"x{level}"], f"x{inner}"), *nodes], f"y{inner}")
    no = side([node("Neg", [f"x{level}"], f"{OTHER}{level}")], f"{OTHER}{level}")
    return [node("If", ["yes"], f"y{level}", then_branch=yes, else_branch=no)]


def branch_of_sizes(level: int, nodes: Nodes) -> Nodes:
    """The side that is not taken gives twice as many rows; the other one finds how many it gives."""
    inner = level - 1
    yes = side([*chosen(f"x{level}", f"x{inner}", level), *nodes], f"y{inner}")
    no = side([node("Concat", [f"x{level}"] * 2, f"{OTHER}{level}", axis=0)], f"{OTHER}{level}")
    return [node("If", ["yes"], f"y{level}", then_branch=yes, else_branch=no)]


def scan(level: int, nodes: Nodes, *, rows: str = "row") -> Nodes:
    inner = level - 1
    body = graph("body", nodes, [formal(f"x{inner}"), formal(f"row{level}")], f"y{inner}")
    return [node("Scan", [f"x{level}", rows], f"y{level}", body=body, num_scan_inputs=1)]


def sequence_map(level: int, nodes: Nodes) -> Nodes:
    inner = level - 1
    body = graph("body", nodes, [formal(f"x{inner}", FLOAT, [SIZE, SIZE])], f"y{inner}")
    return [
        node("SplitToSequence", [f"x{level}", "whole"], f"items{level}", axis=0),
        node("SequenceMap", [f"items{level}"], f"mapped{level}", body=body),
        node("ConcatFromSequence", [f"mapped{level}"], f"y{level}", axis=0),
    ]


COUNTED: Nodes = loop(1, product(), limit="n")
FOUND: Nodes = loop(1, [*chosen("x0", "found", 0), *product("found")], limit="n")
TURNED: Nodes = loop(
    1,
    [
        node("Transpose", ["x0"], "turned", perm=[1, 0]),
        node("Mul", ["turned", "half"], STEP),
        node("Tanh", [STEP], "y0"),
    ],
    limit="n",
)
SCANNED: Nodes = scan(1, product(), rows="rows")


def model_of(
    wrap: Wrap, innermost: Nodes, depth: int, *, own: int = 1, shape: tuple[int, int] = (SIZE, SIZE)
) -> tuple[ModelProto, dict[str, Array]]:
    """Returns a model of `depth` bodies around `innermost`, which is one of them if `own` is 1, and its inputs."""
    nodes, last = innermost, 1 + depth - own
    for level in range(2, last + 1):
        nodes = wrap(level, nodes)
    w = ModelWriter()
    w.nodes += [node("Identity", ["x"], f"x{last}"), *nodes]
    constants = {
        "w": weights(), "one": np.array([1]), "whole": np.array([SIZE]),
        "huge": np.float32(1e30), "half": np.float32(1.5),
    }  # fmt: skip
    w.weights += [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    feeds = {
        "x": given()[: shape[0]], "n": np.array(1), "once": np.array(1), "yes": np.array(True),
        "row": np.ones((1, 1), np.float32), "rows": np.ones((1, 1), np.float32),
    }  # fmt: skip
    inputs: dict[str, tuple[int, list[Any]]] = {
        name: (helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)) for name, array in feeds.items()
    }
    inputs["rows"] = (FLOAT, ["rows", 1])
    return w.model(inputs, {f"y{last}": (FLOAT, None)}), feeds


def program(wrap: Wrap, innermost: Nodes, depth: int, **options: Any) -> Run:
    """Returns a program of `model_of`."""
    model, feeds = model_of(wrap, innermost, depth, **options)
    return partial(run_session, treadle.Session(model), feeds)


def run_session(session: treadle.Session, feeds: Mapping[str, Array], count: int, **options: Any) -> list[Array]:
    rows = np.ones((min(count, MOST_ROWS), 1), np.float32)
    return list(session.run({**feeds, "n": np.array(count), "rows": rows}, **options).values())


KINDS = {
    "ONNX Loop": Kind(partial(program, loop, COUNTED), products),
    "ONNX Loop that finds sizes": Kind(partial(program, loop_that_finds, FOUND), products),
    "ONNX Loop whose value changes its shape": Kind(partial(program, turning, TURNED, shape=WIDE), transposes),
    "ONNX If": Kind(partial(program, branch, COUNTED, own=0), products),
    "ONNX If whose sides find sizes": Kind(partial(program, branch_of_sizes, COUNTED, own=0), products),
    "ONNX Scan": Kind(partial(program, scan, SCANNED), products),
    "ONNX SequenceMap": Kind(partial(program, sequence_map, COUNTED, own=0), products),
}
