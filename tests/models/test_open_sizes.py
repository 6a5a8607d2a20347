"""Models with open dimensions: one plan serves all sizes, with the results of a compile for each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle.compile import runner_of
from treadle.driver import Bound

Array = np.ndarray[Any, Any]


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """Returns seeded weights of the scale that keeps activations near 1."""
    rng = np.random.default_rng(len(name) + shape[0])
    return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32), name)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Sequence[Any]], initializers: Sequence[onnx.TensorProto] = ()
) -> bytes:
    """Returns a model of f32 inputs, whose output is `y`."""
    graph = helper.make_graph(
        list(nodes),
        "open",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(initializers),
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(proto.SerializeToString())


def pointwise() -> bytes:
    """Returns a softmax and a sum over open rows."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Softmax", ["a"], ["p"], axis=-1),
        helper.make_node("Add", ["p", "x"], ["y"]),
    ]
    return model(nodes, {"x": ["batch", "length", 64]})


def heads() -> bytes:
    """Returns rows regrouped as heads, moved and regrouped again, as exported attention does."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Concat", ["batch", "length", "four", "sixteen"], ["split"], axis=0),
        helper.make_node("Reshape", ["x", "split"], ["grouped"]),
        helper.make_node("Transpose", ["grouped"], ["moved"], perm=[0, 2, 1, 3]),
        helper.make_node("LayerNormalization", ["moved", "scale"], ["normal"], axis=-1),
        helper.make_node("Transpose", ["normal"], ["back"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["batch", "length", "wide"], ["joined"], axis=0),
        helper.make_node("Reshape", ["back", "joined"], ["y"]),
    ]
    numbers = {"zero": [0], "one": [1], "four": [4], "sixteen": [16], "wide": [64]}
    constants = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()]
    return model(nodes, {"x": ["batch", "length", 64]}, [*constants, weights("scale", 16)])


def encoder() -> bytes:
    """Returns a layer with products of open rows, and attention over an open length."""
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["c"]),
        helper.make_node("Add", ["c", "x"], ["d"]),
        helper.make_node("LayerNormalization", ["d", "scale"], ["e"], axis=-1),
        helper.make_node("Transpose", ["e"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["e", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "e"], ["mixed"]),
        helper.make_node("ReduceMean", ["mixed"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["mixed", "mean"], ["y"]),
    ]
    initializers = [weights("first", 64, 160), weights("second", 160, 64), weights("scale", 64)]
    return model(nodes, {"x": ["batch", "length", 64]}, initializers)


MODELS = {"pointwise": pointwise, "heads": heads, "encoder": encoder}

SIZES = [(2, 16), (1, 1), (3, 20), (1, 7), (7, 200), (8, 1), (2, 16)]


@pytest.mark.parametrize("name", MODELS)
def test_one_plan_serves_all_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size is bound from the plan that loading has compiled, with the bits of any number of threads."""
    content = MODELS[name]()
    session = treadle.Session(content)
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    apart = treadle.Session(content)
    plans = set()
    for batch, length in SIZES:
        x = np.random.default_rng(batch * length).standard_normal((batch, length, 64)).astype(np.float32)
        results = [session.run({"x": x}, intra_op=threads)["y"] for threads in (1, 2, 1)]
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])
        recent = runner_of(session).recent
        assert recent is not None
        assert isinstance(recent.plan, Bound), f"{batch} x {length} was compiled for itself"
        plans.add(id(recent.plan.open_plan))
        np.testing.assert_allclose(results[0], apart.run({"x": x})["y"], rtol=1e-5, atol=1e-6)
    assert len(plans) == 1


def test_sizes_that_contradict_each_other_are_refused() -> None:
    """The error names what does not fit; the session stays usable."""
    content = model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": ["n", 4], "z": ["m", 4]})
    session = treadle.Session(content)
    ones = {rows: np.ones((rows, 4), np.float32) for rows in (3, 5)}
    with pytest.raises(treadle.errors.ShapeError, match="broadcast"):
        session.run({"x": ones[3], "z": ones[5]})
    np.testing.assert_array_equal(session.run({"x": ones[3], "z": ones[3]})["y"], ones[3] * 2)
    np.testing.assert_array_equal(session.run({"x": ones[5], "z": ones[5]})["y"], ones[5] * 2)
    recent = runner_of(session).recent
    assert recent is not None
    assert isinstance(recent.plan, Bound), "a request that was refused must not end the plans for all sizes"


@pytest.mark.parametrize("rows", [0, 1])
def test_sizes_that_no_plan_assumes_are_served(rows: int) -> None:
    """Empty tensors, which plans with open sizes exclude, give empty results."""
    session = treadle.Session(pointwise())
    x = np.ones((rows, 5, 64), np.float32)
    assert session.run({"x": x})["y"].shape == (rows, 5, 64)


def test_one_plan_serves_a_growing_past() -> None:
    """A step of a decoder appends to its past; every length is bound from one plan."""
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["key"]),
        helper.make_node("Concat", ["past", "key"], ["present"], axis=1),
        helper.make_node("Transpose", ["present"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "present"], ["y"]),
    ]
    session = treadle.Session(
        model(nodes, {"x": ["batch", 1, 32], "past": ["batch", "past", 32]}, [weights("weights", 32, 32)])
    )
    rng = np.random.default_rng(7)
    factor = numpy_helper.to_array(weights("weights", 32, 32))
    past = rng.standard_normal((2, 3, 32)).astype(np.float32)
    plans = set()
    for _ in range(40):
        x = rng.standard_normal((2, 1, 32)).astype(np.float32)
        y = session.run({"x": x, "past": past})["y"]
        past = np.concatenate([past, x @ factor], axis=1)
        scores = x @ past.transpose(0, 2, 1)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(y, shares / shares.sum(-1, keepdims=True) @ past, rtol=1e-4, atol=1e-5)
        recent = runner_of(session).recent
        assert recent is not None
        assert isinstance(recent.plan, Bound)
        plans.add(id(recent.plan.open_plan))
    assert len(plans) == 1
