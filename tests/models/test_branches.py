"""ONNX If in sessions: both branches are compiled, and the one that is taken runs inside the native run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter, side
from treadle.errors import KernelError, RunCancelledError, RunTimeoutError

Array = np.ndarray[Any, Any]
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
HIDDEN = 24
POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2)}


def layers(name: str, width: int, shared: str, mean: str) -> onnx.GraphProto:
    """Returns a branch of three products of x; it reads the constant `shared` and the value `mean` of the outside."""
    rng = np.random.default_rng(width)
    shapes = {f"{name}_in": (HIDDEN, width), f"{name}_out": (width, HIDDEN)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) / 5, w) for w, s in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["x", f"{name}_in"], [f"{name}_a"], name=f"{name}_matmul"),
        helper.make_node("Relu", [f"{name}_a"], [f"{name}_b"], name=f"{name}_relu"),
        helper.make_node("MatMul", [f"{name}_b", f"{name}_out"], [f"{name}_c"], name=f"{name}_project"),
        helper.make_node("MatMul", [f"{name}_c", shared], [f"{name}_d"], name=f"{name}_mix"),
        helper.make_node("Add", [f"{name}_d", mean], [f"{name}_e"], name=f"{name}_add"),
    ]
    return side(nodes, f"{name}_e", mean, weights=weights)


def detector(rows: int | str = 5) -> onnx.ModelProto:
    """An If on the sample rate, each branch with layers of its own."""
    w = ModelWriter()
    shared, mean = w.random(HIDDEN, HIDDEN), w.op("ReduceMean", "x", axes=[1], keepdims=1)
    chosen = w.op("Equal", "rate", w.constant(np.array(16_000)))
    fast, slow = layers("fast", 2 * HIDDEN, shared, mean), layers("slow", HIDDEN, shared, mean)
    y = w.op("If", chosen, outputs=2, then_branch=fast, else_branch=slow)
    return w.model({"x": (FLOAT, [rows, HIDDEN]), "rate": (INT64, [])},
                   {w.op("Tanh", y): (FLOAT, None), f"{y}_1": (FLOAT, None)})  # fmt: skip


def feeds(rows: int, rate: int) -> dict[str, Array]:
    x = np.random.default_rng(rows).standard_normal((rows, HIDDEN)).astype(np.float32)
    return {"x": x, "rate": np.array(rate)}


def assert_agrees(model: onnx.ModelProto, session: treadle.Session, given: Mapping[str, Array]) -> None:
    """The session gives what the onnx package's reference gives, and the same bits on one thread and on two."""
    results = session.run(given)
    for name, wanted in zip(results, ReferenceEvaluator(model).run(None, dict(given)), strict=True):
        np.testing.assert_allclose(results[name], wanted, rtol=1e-4, atol=1e-5)
    for threads in (1, 2):
        again = session.run(given, pool=POOLS[threads])
        assert all(again[name].tobytes() == results[name].tobytes() for name in results)


@pytest.mark.parametrize("rate", [16_000, 8_000])
def test_a_branch_agrees_with_the_reference(rate: int) -> None:
    """Branches read what is outside: an input, a constant, a computed value."""
    session = treadle.Session(detector())
    assert_agrees(detector(), session, feeds(5, rate))


def test_both_branches_run_by_kernels() -> None:
    """No step of the plan or of the plans of its bodies runs in Python."""
    (plan,) = treadle.Session(detector()).plans()
    bodies = [body for call in plan.calls for body in call.plans]

    assert len(bodies) == 2
    assert all(call.function is None for each in (plan, *bodies) for call in each.calls)


def test_one_plan_serves_all_sizes_of_a_branch() -> None:
    """A model with open dimensions is compiled once, its bodies included."""
    session = treadle.Session(detector("rows"))
    for rows in (1, 3, 70):
        for rate in (16_000, 8_000):
            assert_agrees(detector("rows"), session, feeds(rows, rate))

    assert session.compiles == 1
    assert session.why_per_size() is None


def nested() -> onnx.ModelProto:
    """A branch in a branch, each on a condition of its own."""
    deep = {
        "then_branch": side([helper.make_node("Neg", ["x"], ["deep_yes"])], "deep_yes"),
        "else_branch": side([helper.make_node("Abs", ["x"], ["deep_no"])], "deep_no"),
    }
    outer = {
        "then_branch": side([helper.make_node("If", ["b"], ["inner"], name="inner", **deep)], "inner"),
        "else_branch": side([helper.make_node("Exp", ["x"], ["other"])], "other"),
    }
    w = ModelWriter()
    y = w.op("If", "a", **outer)
    return w.model({"x": (FLOAT, [2, 3]), "a": (BOOL, []), "b": (BOOL, [])}, {y: (FLOAT, None)})


@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
def test_branches_nest(a: bool, b: bool) -> None:
    """All four combinations take the branch that the conditions name."""
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    assert_agrees(nested(), treadle.Session(nested()), {"x": x, "a": np.array(a), "b": np.array(b)})


def chain(depth: int) -> onnx.ModelProto:
    """Branches in branches, `depth` of them."""
    inner = side([helper.make_node("Neg", ["x"], ["r0"])], "r0")
    for level in range(1, depth + 1):
        other = side([helper.make_node("Abs", ["x"], [f"o{level}"])], f"o{level}")
        node = helper.make_node("If", ["a"], [f"r{level}"], name=f"if{level}", then_branch=inner, else_branch=other)
        inner = side([node], f"r{level}")
    w = ModelWriter()
    w.nodes += inner.node
    return w.model({"x": (FLOAT, [2]), "a": (BOOL, [])}, {f"r{depth}": (FLOAT, None)})


def test_branches_nest_30_deep() -> None:
    """The innermost of 30 branches gives the result."""
    results = treadle.Session(chain(30)).run({"x": np.array([1, -2], np.float32), "a": np.array(True)})
    np.testing.assert_array_equal(results["r30"], [-1, 2])


def of_different_sizes() -> onnx.ModelProto:
    """The branches give results of different sizes."""
    w = ModelWriter()
    yes = side([helper.make_node("Concat", ["x", "x"], ["yes"], axis=0)], "yes")
    no = side([helper.make_node("Neg", ["x"], ["no"])], "no")
    y = w.op("If", "a", then_branch=yes, else_branch=no)
    return w.model({"x": (FLOAT, [3]), "a": (BOOL, [])}, {w.op("Exp", y): (FLOAT, None)})


@pytest.mark.parametrize("a", [True, False])
def test_branches_may_give_results_of_different_sizes(a: bool) -> None:
    """The size is known once the condition is."""
    given = {"x": np.ones(3, np.float32), "a": np.array(a)}
    assert_agrees(of_different_sizes(), treadle.Session(of_different_sizes()), given)


def on_the_length() -> onnx.ModelProto:
    """A branch that shape arithmetic decides."""
    w = ModelWriter()
    length = w.op("Gather", w.op("Shape", "x"), w.constant(np.array(0)))
    yes = side([helper.make_node("Neg", ["x"], ["yes"])], "yes")
    no = side([helper.make_node("Abs", ["x"], ["no"])], "no")
    y = w.op("If", w.op("Greater", length, w.constant(np.array(8))), then_branch=yes, else_branch=no)
    return w.model({"x": (FLOAT, ["n"])}, {y: (FLOAT, None)})


def test_a_branch_that_sizes_decide_is_gone() -> None:
    """Each plan holds the body that its sizes take, and no branch."""
    session = treadle.Session(on_the_length())
    for length in (3, 9, 8, 40):
        assert_agrees(on_the_length(), session, {"x": -np.ones(length, np.float32)})

    assert all(call.control is None for plan in session.plans() for call in plan.calls)


def test_a_branch_that_a_constant_decides_is_gone() -> None:
    """Importing puts the body that is taken in its place."""
    w = ModelWriter()
    yes = side([helper.make_node("Neg", ["x"], ["yes"])], "yes")
    no = side([helper.make_node("Abs", ["x"], ["no"])], "no")
    y = w.op("If", w.constant(np.array(False)), then_branch=yes, else_branch=no)
    model = w.model({"x": (FLOAT, [3])}, {y: (FLOAT, None)})
    session = treadle.Session(model)

    assert_agrees(model, session, {"x": -np.ones(3, np.float32)})
    assert all(call.control is None for plan in session.plans() for call in plan.calls)


def gathering() -> onnx.ModelProto:
    """A branch whose kernel fails for an index that is out of range."""
    w = ModelWriter()
    yes = side([helper.make_node("Gather", ["x", "i"], ["yes"], name="look_up", axis=0)], "yes")
    no = side([helper.make_node("Identity", ["x"], ["no"])], "no")
    y = w.op("If", "a", then_branch=yes, else_branch=no)
    return w.model({"x": (FLOAT, [4]), "i": (INT64, [4]), "a": (BOOL, [])}, {w.op("Neg", y): (FLOAT, None)})


def test_an_error_in_a_branch_names_its_node() -> None:
    """A failing kernel of a body is named; the branch that is not taken does not fail; the session works on."""
    session = treadle.Session(gathering())
    given = {"x": np.arange(4, dtype=np.float32), "i": np.array([0, 1, 2, 9]), "a": np.array(True)}
    with pytest.raises(KernelError, match="if0/look_up"):
        session.run(given)

    assert_agrees(gathering(), session, {**given, "a": np.array(False)})
    assert_agrees(gathering(), session, {**given, "i": np.array([3, 2, 1, 0])})


def test_a_trace_shows_the_branch_taken(tmp_path: Any) -> None:
    """Ops of the body that ran have events; those of the other have none."""
    session = treadle.Session(detector())
    file = tmp_path / "trace.json"
    with treadle.trace(file):
        session.run(feeds(5, 8_000))
    names = " ".join(str(event) for event in json.loads(file.read_text())["traceEvents"])

    assert "slow_matmul" in names
    assert "fast_matmul" not in names


def slow(rows: int = 1500) -> onnx.ModelProto:
    """A branch of some seconds of work."""
    w = ModelWriter()
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"y{i - 1}", "x"], [f"y{i}"]) for i in range(200)]
    y = w.op("If", "a", then_branch=side(nodes, "y199"), else_branch=side([helper.make_node("Neg", ["x"], ["n"])], "n"))
    return w.model({"x": (FLOAT, [rows, rows]), "a": (BOOL, [])}, {y: (FLOAT, None)})


def test_a_timeout_ends_a_run_inside_a_branch() -> None:
    """The run ends soon after its timeout, and the session may be used again."""
    session = treadle.Session(slow())
    given = {"x": np.zeros((1500, 1500), np.float32), "a": np.array(True)}
    with pytest.raises(RunTimeoutError):
        session.run(given, timeout=0.05)
    token = treadle.CancelToken()
    future = session.run_async(given, cancel=token)
    time.sleep(0.02)
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()

    assert session.run({**given, "a": np.array(False)})["if0"].shape == (1500, 1500)


def test_the_nodes_of_a_branch_have_caps() -> None:
    """A node of a body is known by its name, and a cap on it changes no result."""
    session = treadle.Session(detector(), node_intra_op={"if2/fast_matmul": 1})
    assert_agrees(detector(), session, feeds(5, 16_000))


def against_onnx_runtime(model: onnx.ModelProto, given: Mapping[str, Array]) -> None:
    """Compares the results with those of ONNX Runtime, where it is installed."""
    onnxruntime = pytest.importorskip("onnxruntime")
    rival = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for result, wanted in zip(treadle.Session(model).run(given).values(), rival.run(None, dict(given)), strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-5)


@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
def test_nested_branches_agree_with_onnx_runtime(a: bool, b: bool) -> None:
    """All four combinations."""
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    against_onnx_runtime(nested(), {"x": x, "a": np.array(a), "b": np.array(b)})


@pytest.mark.parametrize("a", [True, False])
def test_results_of_different_sizes_agree_with_onnx_runtime(a: bool) -> None:
    """The size is known once the condition is."""
    against_onnx_runtime(of_different_sizes(), {"x": np.ones(3, np.float32), "a": np.array(a)})


@pytest.mark.parametrize("columns", [HIDDEN, "columns"])
def test_a_body_that_does_not_fit_fails_only_if_it_is_taken(columns: int | str) -> None:
    """As speech detectors with a body for each sample rate do: the length fits one of them."""
    w = ModelWriter()
    chosen = w.op("Equal", "rate", w.constant(np.array(16_000)))
    bodies = [
        side([helper.make_node("MatMul", ["x", weights], [f"y{size}"], name=f"product{size}")], f"y{size}")
        for size in (HIDDEN, HIDDEN // 2)
        for weights in [w.random(size, 3)]
    ]
    y = w.op("If", chosen, then_branch=bodies[0], else_branch=bodies[1])
    model = w.model({"x": (FLOAT, [2, columns]), "rate": (INT64, [])}, {w.op("Tanh", y): (FLOAT, None)})

    session = treadle.Session(model.SerializeToString())

    assert_agrees(model, session, feeds(2, 16_000))
    with pytest.raises(treadle.errors.RunError, match=f"product{HIDDEN // 2}.*inner sizes differ"):
        session.run(feeds(2, 8_000))
    if isinstance(columns, str):
        half = {**feeds(2, 8_000), "x": feeds(2, 0)["x"][:, : HIDDEN // 2]}
        assert_agrees(model, session, half)
    assert_agrees(model, session, feeds(2, 16_000))


def test_no_body_that_fits_is_an_error_of_the_model() -> None:
    """
    Nothing could run, so it is refused.
    """
    w = ModelWriter()
    bodies = [
        side([helper.make_node("MatMul", ["x", weights], [f"y{size}"], name=f"product{size}")], f"y{size}")
        for size in (HIDDEN + 1, HIDDEN // 2)
        for weights in [w.random(size, 3)]
    ]
    y = w.op("If", w.op("Equal", "rate", w.constant(np.array(1))), then_branch=bodies[0], else_branch=bodies[1])
    model = w.model({"x": (FLOAT, [2, HIDDEN]), "rate": (INT64, [])}, {y: (FLOAT, None)})

    with pytest.raises(treadle.errors.ModelError, match=r"product25.*inner sizes differ.*product12"):
        treadle.Session(model.SerializeToString())
