"""Models with open dimensions: one plan serves all sizes, with the results of a compile for each size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle.compile import runner_of
from treadle.compiled_plans import Bound
from treadle.runtime.plans import Runnable
from treadle.runtime.turns import Turn

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def last_plan(session: treadle.Session) -> Runnable:
    """Returns the plan for the sizes of the session's last run alone."""
    recent = runner_of(session).recent
    assert recent is not None
    return recent.plan.kept() if isinstance(recent.plan, Turn) else recent.plan


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


def channels() -> bytes:
    """Returns attention of 24 channels to 24 channels, over an open number of positions."""
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("Transpose", ["q"], ["queries"], perm=[0, 2, 1]),
        helper.make_node("Mul", ["x", "scale"], ["keys"]),
        helper.make_node("MatMul", ["queries", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("Transpose", ["x"], ["values"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["shares", "values"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["y"], perm=[0, 2, 1]),
    ]
    scale = numpy_helper.from_array(np.full(24, 0.1, np.float32), "scale")
    return model(nodes, {"x": ["batch", "length", 24]}, [weights("wq", 24, 24), scale])


def attention(
    bias: Sequence[Any] | None = None,
    *,
    queries: Any = "length",
    keys: Any = None,
    past: bool = False,
    causal: bool = False,
) -> bytes:
    """Returns attention of `queries` queries to `keys` keys and values (None: their own) behind those of `past`, with
    4 heads.

    The scores get a bias of the shape `bias`; with `causal`, only the keys up to a query's own position count.
    """
    nodes = []
    inputs: dict[str, Sequence[Any]] = {"x": ["batch", queries, 64]}
    if keys is not None:
        inputs["z"] = ["batch", keys, 64]
    for name in "qkv":
        source = "z" if name != "q" and "z" in inputs else "x"
        nodes += [
            helper.make_node("MatMul", [source, f"w{name}"], [f"{name}0"]),
            helper.make_node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            helper.make_node("Transpose", [f"{name}1"], [f"{name}2"], perm=[0, 2, 1, 3]),
        ]
    k, v = "k2", "v2"
    if past:
        inputs |= {f"past_{name}": ["batch", 4, "past", 16] for name in "kv"}
        nodes += [helper.make_node("Concat", [f"past_{name}", f"{name}2"], [f"{name}3"], axis=2) for name in "kv"]
        k, v = "k3", "v3"
    nodes += [
        helper.make_node("Transpose", [k], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q2", "kt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
    ]
    scores = "scores"
    if bias is not None:
        inputs["bias"] = bias
        if past:
            inputs["past_bias"] = [*bias[:-1], "past"]
            nodes.append(helper.make_node("Concat", ["past_bias", "bias"], ["all_bias"], axis=3))
        nodes.append(helper.make_node("Add", [scores, "all_bias" if past else "bias"], ["biased"]))
        scores = "biased"
    if causal:
        nodes += [
            helper.make_node("Shape", [scores], ["sides"]),
            helper.make_node("Gather", ["sides", "two"], ["queries"]),
            helper.make_node("Gather", ["sides", "three"], ["keys"]),
            helper.make_node("Range", ["zero", "keys", "one"], ["key"]),
            helper.make_node("Sub", ["keys", "queries"], ["first"]),
            helper.make_node("Range", ["first", "keys", "one"], ["query"]),
            helper.make_node("Unsqueeze", ["query", "axis"], ["position"]),
            helper.make_node("LessOrEqual", ["key", "position"], ["seen"]),
            helper.make_node("Where", ["seen", scores, "low"], ["masked"]),
        ]
        scores = "masked"
    nodes += [
        helper.make_node("Softmax", [scores], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", v], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["moved"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["moved", "joined"], ["y"]),
    ]
    constants = {
        "split": np.array([0, 0, 4, 16]),
        "joined": np.array([0, 0, 64]),
        "scale": np.float32(0.25),
        "low": np.float32(-1e9),
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
        "three": np.array(3),
        "axis": np.array([1]),
    }
    return model(
        nodes,
        inputs,
        [
            *(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()),
            *(weights(f"w{name}", 64, 64) for name in "qkv"),
        ],
    )


def given(inputs: Iterable[onnx.ValueInfoProto], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Returns seeded arrays for `inputs`, whose open dimensions have these sizes."""
    rng = np.random.default_rng(sum(sizes.values()))
    shapes = {
        value.name: [
            sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim
        ]
        for value in inputs
    }
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


MODELS = {
    "pointwise": pointwise,
    "heads": heads,
    "encoder": encoder,
    "attention": attention,
    "attention of channels": channels,
    "masked attention": lambda: attention(["batch", 1, 1, "length"]),
    "biased attention": lambda: attention([4, "length", "length"]),
    "attention with a bias for each query": lambda: attention([1, 1, "length", 1]),
    "causal attention": lambda: attention(causal=True),
    "decoder": lambda: attention(["batch", 1, 1, "length"], past=True),
    "causal decoder": lambda: attention(past=True, causal=True),
    "decoder step": lambda: attention(["batch", 1, 1, 1], queries=1, past=True),
    "cross attention": lambda: attention(["batch", 1, "length", "keys"], keys="keys"),
    "attention to 24 keys": lambda: attention(["batch", 1, "length", 24], keys=24),
}

NOT_FUSED = ("pointwise", "heads", "decoder step", "attention of channels")
"""Models without an `attention` node: one query would fill no vector, and values of an open width no kernel."""

SIZES = [(2, 16), (1, 1), (3, 20), (1, 7), (7, 200), (8, 1), (2, 33), (2, 16)]


@pytest.mark.parametrize("name", MODELS)
def test_one_plan_serves_all_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size is bound from the plan that loading has compiled, with the bits of any number of threads."""
    content = MODELS[name]()
    inputs = onnx.load_from_string(content).graph.input
    session = treadle.Session(content)
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    apart = treadle.Session(content)
    plans = set()
    for batch, length in SIZES:
        past = 1 + (7 * length + batch) % 50
        feeds = given(inputs, {"batch": batch, "length": length, "past": past, "keys": past})
        results = [session.run(feeds, intra_op=threads)["y"] for threads in (1, 2, 1)]
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])
        plan = last_plan(session)
        assert isinstance(plan, Bound), f"{batch} x {length} was compiled for itself"
        plans.add(id(plan.open_plan))
        np.testing.assert_allclose(results[0], apart.run(feeds)["y"], rtol=1e-5, atol=1e-6)
    assert len(plans) == 1
    assert isinstance(plan, Bound)
    assert ("attention" in {call.op for call in plan.plan.calls}) == (name not in NOT_FUSED)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    """The error names what does not fit; the session stays usable."""
    content = model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": ["n", 4], "z": ["m", 4]})
    session = treadle.Session(content)
    ones = {rows: np.ones((rows, 4), np.float32) for rows in (3, 5)}
    with pytest.raises(treadle.errors.ShapeError, match="broadcast"):
        session.run({"x": ones[3], "z": ones[5]})
    np.testing.assert_array_equal(session.run({"x": ones[3], "z": ones[3]})["y"], ones[3] * 2)
    np.testing.assert_array_equal(session.run({"x": ones[5], "z": ones[5]})["y"], ones[5] * 2)
    assert isinstance(last_plan(session), Bound), "a request that was refused must not end the plans for all sizes"


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
        plan = last_plan(session)
        assert isinstance(plan, Bound)
        plans.add(id(plan.open_plan))
    assert len(plans) == 1
