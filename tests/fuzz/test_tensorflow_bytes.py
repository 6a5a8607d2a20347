"""Damaged and hostile frozen graphs: loading either works or raises a treadle error, and always ends."""

import random

import numpy as np
import pytest

from tests.fuzz.test_onnx_bytes import EXTREMES, damaged
from tests.unit.frontends.tensorflow.graphs import Writer, mobile
from tests.unit.frontends.tensorflow.test_frozen_graphs import network, with_functions
from treadle.dtypes import i32
from treadle.errors import TreadleError
from treadle.frontends.tensorflow import load
from treadle.frontends.tensorflow.messages import GraphDef
from treadle.frontends.tensorflow.nodes import NODES, STRUCTURE
from treadle.graph.template import Template


def shapes() -> Writer:
    """Arithmetic with shapes, slices of all kinds, branches and loops."""
    w = with_functions()
    x = w.input("x", (None, 4))
    shape = w.node("Shape", x, out_type=i32)
    rows = w.node("StridedSlice", shape, w.ints(0), w.ints(1), w.ints(1), shrink_axis_mask=1)
    wanted = w.node("Pack", rows, w.constant(2, np.int32), w.constant(2, np.int32), N=3, axis=0)
    y = w.node("Reshape", x, wanted)
    y = w.node("ConcatV2", y, w.node("Transpose", y, w.ints(0, 2, 1)), w.constant(1, np.int32), N=2)
    y = w.node("Mean", w.node("Tile", y, w.ints(1, 2, 1)), w.ints(-1, 1), keep_dims=True)
    y = w.node("Select", w.node("Greater", y, w.constant(np.float32(0))), y, w.node("OnesLike", y))
    w.node("OneHot", w.node("ArgMax", y, w.constant(0, np.int32)), w.constant(3, np.int32), w.constant(np.float32(1)),
           w.constant(np.float32(0)), axis=-1)  # fmt: skip
    flag = w.node("Less", rows, w.constant(3, np.int32))
    side = w.node("Switch", y, flag)
    w.node("Merge", side, w.node("Neg", f"{side}:1"), N=2, name="out")
    return w


@pytest.fixture(scope="module")
def seeds():
    return [w.bytes() for w in (mobile(32, None), mobile(32, 1), network(), shapes())]


def outcome(content):
    """`loaded`, or the name of the treadle error; any other exception passes through and fails the test."""
    try:
        model = load(content)
        if isinstance(model, Template) and all(value.shape is not None for value in model.inputs):
            model.build([(v.dtype, tuple(d if isinstance(d, int) else 3 for d in v.shape)) for v in model.inputs])
    except TreadleError as error:
        return type(error).__name__
    return "loaded"


def test_damaged_bytes_load_or_raise_a_treadle_error(seeds):
    """500 random damages of good graphs: no other exception, no crash, no hang."""
    rng = random.Random(20261121)
    outcomes = [outcome(damaged(rng.choice(seeds), seeds, rng)) for _ in range(500)]
    assert {"loaded", "ModelError", "ModelFormatError", "UnsupportedModelError"} <= set(outcomes)


def alter(graph, rng):
    """Change one thing that protobuf does not mind: an op, an attribute, an input, a shape, a stored number."""
    node = rng.choice(graph.node)
    kind = rng.randrange(7)
    if kind == 0:
        node.op = rng.choice([*NODES, *STRUCTURE])
    elif kind == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice([other.name for other in graph.node]) + rng.choice(
            ("", ":1")
        )
    elif kind == 2 and node.input:
        del node.input[-1]
    elif kind == 3:
        node.input.append(rng.choice(("^", "")) + rng.choice(graph.node).name)
    elif kind in (4, 5) and node.attr:
        attribute = node.attr[rng.choice(list(node.attr))]
        change(attribute, rng)
    elif kind == 6 and node.attr:
        del node.attr[rng.choice(list(node.attr))]


def change(attribute, rng):
    which = attribute.WhichOneof("value")
    if which in ("i", "f", "type"):
        setattr(attribute, which, rng.choice(EXTREMES[5:9] if which == "type" else EXTREMES))
    elif which == "list":
        attribute.list.i[:] = [rng.choice(EXTREMES) for _ in range(rng.randrange(6))]
    elif which == "s":
        attribute.s = rng.choice((b"", b"NCHW", b"EXPLICIT", b"\xff", b"SAME"))
    elif which == "shape":
        for dim in attribute.shape.dim:
            dim.size = rng.choice(EXTREMES)
    elif which == "tensor":
        tensor = attribute.tensor
        if rng.random() < 0.4:
            tensor.dtype = rng.randrange(30)
        elif rng.random() < 0.5 and tensor.tensor_shape.dim:
            tensor.tensor_shape.dim[0].size = rng.choice(EXTREMES)
        elif tensor.dtype == 3:
            count = len(tensor.tensor_content) // 4
            tensor.tensor_content = np.array(
                [rng.choice((-9, -1, 0, 1, 2, 2**31 - 1)) for _ in range(count)], "<i4"
            ).tobytes()
        else:
            tensor.tensor_content = b""


def test_altered_graphs_load_or_raise_a_treadle_error(seeds):
    """600 graphs with odd ops, attributes, inputs, shapes and numbers: no other exception, no crash, no hang."""
    rng = random.Random(20261122)
    outcomes = []
    for _ in range(600):
        graph = GraphDef.FromString(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 3))):
            alter(graph, rng)
        outcomes.append(outcome(graph.SerializeToString()))
    assert {"loaded", "ModelError", "UnsupportedModelError"} <= set(outcomes)
