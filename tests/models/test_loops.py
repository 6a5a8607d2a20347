"""ONNX Loop and Scan in sessions: the body is compiled once and runs inside the native run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from tests.models.at_once import assert_same_bits_at_once
from tests.models.small import FLOAT, ModelWriter, node
from treadle.errors import KernelError, ModelError, RunCancelledError, RunTimeoutError
from treadle.plan.call import Call
from treadle.plan.control_flow import Loop

Array = np.ndarray[Any, Any]
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2)}
SIZE = 8


def body(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[int, Sequence[Any] | None]], *outputs: str
) -> onnx.GraphProto:
    """Returns a body with these inputs (element type, shape)."""
    formals = [helper.make_tensor_value_info(name, *form) for name, form in inputs.items()]
    return helper.make_graph(list(nodes), "body", formals, [helper.make_empty_tensor_value_info(o) for o in outputs])


LOOP_INPUTS: dict[str, tuple[int, list[Any] | None]] = {"i": (INT64, []), "on": (BOOL, [])}


def layers(*, below: float | None = None, name: str = "") -> onnx.GraphProto:
    """Returns the body of a Loop that carries s and stacks t; it ends once the sum of s is `below` this, or never."""
    nodes = [
        node("MatMul", ["s", "weights"], f"{name}a"),
        node("Tanh", [f"{name}a"], f"{name}t"),
        node("Cast", ["i"], f"{name}number", to=FLOAT),
        node("Mul", [f"{name}number", "rate"], f"{name}growth"),
        node("Add", [f"{name}t", f"{name}growth"], f"{name}next"),
    ]
    if below is None:
        nodes.append(node("Identity", ["on"], f"{name}again"))
    else:
        limit = helper.make_tensor("limit", FLOAT, [], [below])
        nodes += [
            node("ReduceSum", [f"{name}next"], f"{name}sum", keepdims=0),
            node("Constant", [], f"{name}limit", value=limit),
            node("Less", [f"{name}sum", f"{name}limit"], f"{name}again"),
        ]
    inputs = {**LOOP_INPUTS, "s": (FLOAT, None)}
    return body(nodes, inputs, f"{name}again", f"{name}next", f"{name}t")


def looping(limit: int | str | None, *, below: float | None = None, rows: int | str = 2) -> onnx.ModelProto:
    """A Loop between other nodes; `limit` is a constant, the name of an input, or absent."""
    w = ModelWriter()
    weights = w.random(SIZE, SIZE)
    loop = layers(below=below)
    for each in loop.node:
        each.input[:] = [weights if name == "weights" else name for name in each.input]
    count = "" if limit is None else limit if isinstance(limit, str) else w.constant(np.array(limit))
    y = w.op("Loop", count, "", w.op("Neg", "x"), outputs=2, body=loop)
    inputs: dict[str, tuple[int, list[Any]]] = {"x": (FLOAT, [rows, SIZE]), "rate": (FLOAT, [])}
    if isinstance(limit, str):
        inputs[limit] = (INT64, [])
    stacked = {} if isinstance(limit, str) else {w.op("Exp", f"{y}_1"): (FLOAT, None)}
    return w.model(inputs, {w.op("Abs", y): (FLOAT, None), **stacked})


def feeds(rows: int = 2, rate: float = 0.25, **others: Any) -> dict[str, Array]:
    x = np.random.default_rng(rows).standard_normal((rows, SIZE)).astype(np.float32)
    return {"x": x, "rate": np.array(rate, np.float32), **{name: np.asarray(other) for name, other in others.items()}}


def looped(
    model: onnx.ModelProto, given: Mapping[str, Array], limit: int, below: float | None = None
) -> tuple[Array, Array]:
    """What `looping` computes, without the last ops: the onnx package's reference knows no absent condition."""
    (weights,) = (numpy_helper.to_array(t) for t in model.graph.initializer if len(t.dims) == 2)
    state, stacked = -given["x"], []
    for number in range(limit):
        stacked.append(np.tanh(state @ weights))
        state = stacked[-1] + number * given["rate"]
        if below is not None and not state.sum() < below:
            break
    return state, np.array(stacked, np.float32).reshape(len(stacked), *state.shape)


def assert_agrees(session: treadle.Session, given: Mapping[str, Array], *wanted: Array) -> None:
    """The session gives what is wanted, and the same bits on one thread and on two."""
    results = session.run(given)
    for name, expected in zip(results, wanted, strict=True):
        assert results[name].shape == expected.shape
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-5)
    for threads in (1, 2):
        again = session.run(given, pool=POOLS[threads])
        assert all(again[name].tobytes() == results[name].tobytes() for name in results)


def all_calls(session: treadle.Session) -> list[Call]:
    """Returns the calls of a session's plans and of the bodies in them."""
    found: list[Call] = []
    plans = list(session.plans())
    while plans:
        calls = plans.pop().calls
        found += calls
        plans += [body for call in calls for body in call.plans]
    return found


def assert_native(session: treadle.Session, loops: int = 1) -> None:
    """No step of the session runs in Python, and `loops` of them are loops."""
    calls = all_calls(session)
    assert all(call.function is None for call in calls)
    assert sum(isinstance(call.control, Loop) for call in calls) == loops


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_a_loop_agrees_with_the_reference(count: int) -> None:
    """A loop with a constant limit carries and stacks values, and reads what is outside."""
    model = looping(count)
    session, given = treadle.Session(model), feeds()
    state, stacked = looped(model, given, count)
    assert_agrees(session, given, abs(state), np.exp(stacked))
    assert_native(session)


@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_the_limit_may_be_computed(count: int) -> None:
    """One plan serves all limits where nothing is stacked."""
    model = looping("n")
    session, given = treadle.Session(model), feeds(n=count)
    assert_agrees(session, given, abs(looped(model, given, count)[0]))
    assert_native(session)


@pytest.mark.parametrize("rate", [0.01, 0.25, 3.0, -1.0])
def test_a_condition_ends_a_loop(rate: float) -> None:
    """Stacked values have an item for each iteration that was made."""
    model = looping(12, below=8.0)
    session, given = treadle.Session(model), feeds(rate=rate)
    state, stacked = looped(model, given, 12, 8.0)
    assert_agrees(session, given, abs(state), np.exp(stacked))
    assert any(isinstance(call.control, Loop) for call in all_calls(session))


def test_a_condition_alone_may_end_a_loop() -> None:
    """Without a limit the number of iterations depends on data, and so does the size of stacked values."""
    model = looping(None, below=8.0)
    session = treadle.Session(model)
    for rate in (3.0, 0.25):
        given = feeds(rate=rate)
        state, stacked = looped(model, given, 1000, 8.0)
        assert_agrees(session, given, abs(state), np.exp(stacked))


def test_one_plan_serves_all_sizes_of_a_loop() -> None:
    """A model with open dimensions is compiled once, its bodies included."""
    model = looping(5, rows="rows")
    session = treadle.Session(model)
    for rows in (1, 3, 70):
        given = feeds(rows)
        state, stacked = looped(model, given, 5)
        assert_agrees(session, given, abs(state), np.exp(stacked))

    assert session.compiles == 1
    assert session.why_per_size() is None


def growing(limit: int) -> onnx.ModelProto:
    """A loop that appends a row in each iteration, beside a value that keeps its shape."""
    nodes = [
        node("Identity", ["on"], "again"),
        node("Concat", ["s", "x"], "longer", axis=0),
        node("Neg", ["k"], "next"),
        node("Shape", ["s"], "shape"),
    ]
    inputs = {**LOOP_INPUTS, "s": (FLOAT, None), "k": (FLOAT, None)}
    w = ModelWriter()
    count = w.constant(np.array(limit))
    y = w.op("Loop", count, "", "x", "x", outputs=3, body=body(nodes, inputs, "again", "longer", "next", "shape"))
    return w.model(
        {"x": (FLOAT, [1, SIZE])}, {w.op("Exp", y): (FLOAT, None), f"{y}_1": (FLOAT, None), f"{y}_2": (INT64, None)}
    )


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_carried_value_may_change_its_shape(count: int) -> None:
    """Nothing of a shape that holds in one iteration is used in another."""
    x = np.arange(SIZE, dtype=np.float32).reshape(1, SIZE) / SIZE
    shapes = np.array([(rows + 1, SIZE) for rows in range(count)], np.int64).reshape(count, 2)
    grown = np.exp(np.repeat(x, count + 1, axis=0))
    assert_agrees(treadle.Session(growing(count)), {"x": x}, grown, x * (-1) ** count, shapes)


def scanning(axes: tuple[int, int], backward: tuple[int, int], length: int | str = 6) -> onnx.ModelProto:
    """A Scan with two sliced values and two stacked ones."""
    nodes = [
        node("MatMul", ["s", "w"], "a"),
        node("Add", ["a", "u"], "b"),
        node("Tanh", ["b"], "next"),
        node("Mul", ["next", "v"], "product"),
        node("Sub", ["next", "u"], "difference"),
    ]
    inputs = {"s": (FLOAT, None), "u": (FLOAT, None), "v": (FLOAT, None)}
    w = ModelWriter()
    weights = w.random(SIZE, SIZE)
    nodes[0].input[1] = weights
    y = w.op(
        "Scan", "x", "p", "q", outputs=3, body=body(nodes, inputs, "next", "product", "difference"), num_scan_inputs=2,
        scan_input_axes=[0, axes[0]], scan_input_directions=[0, backward[0]], scan_output_axes=[axes[1], 0],
        scan_output_directions=[backward[1], 0],
    )  # fmt: skip
    q: list[int | str] = [2, SIZE]
    q.insert(axes[0] % 3, length)
    return w.model({"x": (FLOAT, [2, SIZE]), "p": (FLOAT, [length, 2, SIZE]), "q": (FLOAT, q)},
                   dict.fromkeys((y, f"{y}_1", f"{y}_2"), (FLOAT, None)))  # fmt: skip


def scan_feeds(axis: int, length: int) -> dict[str, Array]:
    rng = np.random.default_rng(length)
    q = [2, SIZE]
    q.insert(axis % 3, length)
    shapes = {"x": (2, SIZE), "p": (length, 2, SIZE), "q": q}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def scanned(
    axes: tuple[int, int], backward: tuple[int, int], given: Mapping[str, Array], weights: Array
) -> list[Array]:
    """What `scanning` computes; the onnx package's reference knows neither axes nor directions."""
    state, products, differences = given["x"], [], []
    q = np.moveaxis(given["q"], axes[0], 0)
    for u, v in zip(given["p"], q[::-1] if backward[0] else q, strict=True):
        state = np.tanh(state @ weights + u)
        products.append(state * v)
        differences.append(state - u)
    stacked = np.array(products[::-1] if backward[1] else products)
    return [state, np.moveaxis(stacked, 0, axes[1]), np.array(differences)]


@pytest.mark.parametrize("axes", [(0, 0), (1, 2), (-1, 1)])
@pytest.mark.parametrize("backward", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scan_takes_and_stacks_items_along_axes(axes: tuple[int, int], backward: tuple[int, int]) -> None:
    """All axes and directions, on one thread and on two."""
    model = scanning(axes, backward)
    (weights,) = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    session, given = treadle.Session(model), scan_feeds(axes[0], 6)
    for threads in (1, 2):
        results = session.run(given, pool=POOLS[threads])
        for result, wanted in zip(results.values(), scanned(axes, backward, given, weights), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    assert_native(session)


def test_one_plan_serves_all_lengths_of_a_scan() -> None:
    """The number of iterations is an open dimension."""
    model = scanning((0, 0), (0, 1), "length")
    (weights,) = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    session = treadle.Session(model)
    for length in (1, 2, 9, 40):
        given = scan_feeds(0, length)
        for result, wanted in zip(session.run(given).values(), scanned((0, 0), (0, 1), given, weights), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)

    assert session.compiles == 1
    assert session.why_per_size() is None


def exchanging() -> onnx.ModelProto:
    """A loop whose carried values change places, beside one that it leaves alone and one that it replaces."""
    nodes = [
        node("Identity", ["on"], "again"),
        node("Identity", ["b"], "a_next"),
        node("Neg", ["a"], "b_next"),
        node("Identity", ["c"], "c_next"),
        node("Add", ["c", "i_float"], "d_next"),
        node("Cast", ["i"], "i_float", to=FLOAT),
    ]
    inputs = {**LOOP_INPUTS, **dict.fromkeys("abcd", (FLOAT, None))}
    loop = body([nodes[5], *nodes[:5]], inputs, "again", "a_next", "b_next", "c_next", "d_next", "c")
    w = ModelWriter()
    y = w.op("Loop", w.constant(np.array(5)), w.constant(np.array(True)), "x", "y", "x", "y", outputs=5, body=loop)
    return w.model({"x": (FLOAT, [3]), "y": (FLOAT, [3])},
                   dict.fromkeys((y, *(f"{y}_{i}" for i in range(1, 5))), (FLOAT, None)))  # fmt: skip


def test_carried_values_may_change_places() -> None:
    """An iteration reads all values before it writes any; a value that stays the same is no copy."""
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    a, b, d = x, y, y
    for number in range(5):
        a, b, d = b, -a, x + np.float32(number)
    assert_agrees(treadle.Session(exchanging()), {"x": x, "y": y}, a, b, x, d, np.array([x] * 5))


def nested(depth: int) -> onnx.ModelProto:
    """Loops in loops, those of every tenth level of three iterations. An If in the innermost decides by the number."""
    yes = helper.make_graph([node("Neg", ["s0"], "yes")], "yes", [], [helper.make_empty_tensor_value_info("yes")])
    no = helper.make_graph([node("Add", ["s0", "x"], "no")], "no", [], [helper.make_empty_tensor_value_info("no")])
    nodes = [
        node("Cast", ["i0"], "odd0", to=BOOL),
        node("If", ["odd0"], "next0", then_branch=yes, else_branch=no),
        node("Identity", ["on0"], "again0"),
    ]
    for level in range(depth):
        inputs: dict[str, tuple[int, list[Any] | None]] = {
            f"i{level}": (INT64, []),
            f"on{level}": (BOOL, []),
            f"s{level}": (FLOAT, None),
        }
        inner = body(nodes, inputs, f"again{level}", f"next{level}")
        count = helper.make_tensor("n", INT64, [], [3 if level % 10 == 0 else 1])
        nodes = [
            node("Constant", [], f"count{level}", value=count),
            node("Loop", [f"count{level}", "", f"s{level + 1}"], f"next{level + 1}", body=inner),
            node("Identity", [f"on{level + 1}"], f"again{level + 1}"),
        ]
    w = ModelWriter()
    w.nodes += nodes[:2]
    w.nodes[-1].input[2] = "x"
    return w.model({"x": (FLOAT, [3])}, {f"next{depth}": (FLOAT, None)})


@pytest.mark.parametrize("depth", [1, 2, 30])
def test_loops_nest(depth: int) -> None:
    """Loops and branches inside loops, 30 deep."""
    session = treadle.Session(nested(depth))
    x = np.array([1, -2, 3], np.float32)
    y = x
    for _ in range(3 ** ((depth - 1) // 10)):
        y = y + x  # then the sign changes twice
    assert_agrees(session, {"x": x}, y)
    assert_native(session, depth)


def test_an_error_in_a_body_names_its_node() -> None:
    """A failing kernel of a body is named, and the session works on."""
    w = ModelWriter()
    nodes = [
        node("Identity", ["on"], "again"),
        node("Gather", ["s", "i"], "row", axis=0),
        node("Add", ["s", "row"], "next"),
    ]
    inputs = {**LOOP_INPUTS, "s": (FLOAT, None)}
    y = w.op("Loop", "n", "", "x", body=body(nodes, inputs, "again", "next"))
    model = w.model({"x": (FLOAT, [4]), "n": (INT64, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(KernelError, match="loop0/row"):
        session.run({"x": x, "n": np.array(9)})

    wanted = x
    for number in range(4):
        wanted = wanted + wanted[number]
    assert_agrees(session, {"x": x, "n": np.array(4)}, wanted)


def test_a_trace_shows_iterations(tmp_path: Any) -> None:
    """Ops of a body have an event for each iteration, with its number, in the run of the loop."""
    session = treadle.Session(looping(4))
    file = tmp_path / "trace.json"
    with treadle.trace(file) as recording:
        session.run(feeds())
    products = [event for event in recording.events if "/a" in event.node]
    (loop,) = (event for event in recording.events if event.op == "loop")

    assert [event.iteration for event in products] == [0, 1, 2, 3]
    assert {event.run for event in products} == {loop.run}
    assert loop.iteration is None
    numbers = [event["args"]["iteration"] for event in json.loads(file.read_text())["traceEvents"]
               if "/a" in event["name"]]  # fmt: skip
    assert numbers == [0, 1, 2, 3]


def endless() -> onnx.ModelProto:
    """A Loop without an end."""
    nodes = [node("Identity", ["on"], "again"), node("Add", ["s", "rate"], "next")]
    w = ModelWriter()
    y = w.op("Loop", "", "", "x", body=body(nodes, {**LOOP_INPUTS, "s": (FLOAT, None)}, "again", "next"))
    return w.model({"x": (FLOAT, [SIZE]), "rate": (FLOAT, [])}, {y: (FLOAT, None)})


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_without_an_end_stops_at_its_timeout(threads: int) -> None:
    """Also where several threads serve the run; compiling does not run it."""
    session = treadle.Session(endless())
    given = {"x": np.zeros(SIZE, np.float32), "rate": np.array(1, np.float32)}
    with pytest.raises(RunTimeoutError):
        session.run(given, pool=POOLS[threads], timeout=0.05)
    assert_native(session)


def test_a_loop_of_constants_is_not_run_by_compiling() -> None:
    """A loop without an end whose operands are all constant is left to the run."""
    w = ModelWriter()
    nodes = [node("Identity", ["on"], "again"), node("Add", ["s", "s"], "next")]
    initial = w.constant(np.ones(2, np.float32))
    y = w.op("Loop", "", "", initial, body=body(nodes, {**LOOP_INPUTS, "s": (FLOAT, None)}, "again", "next"))
    session = treadle.Session(w.model({"x": (FLOAT, [2])}, {w.op("Add", y, "x"): (FLOAT, None)}))
    with pytest.raises(RunTimeoutError):
        session.run({"x": np.ones(2, np.float32)}, timeout=0.05)


def test_a_loop_is_cancelled() -> None:
    """The run ends soon after its token is cancelled."""
    session = treadle.Session(endless())
    token = treadle.CancelToken()
    future = session.run_async({"x": np.zeros(SIZE, np.float32), "rate": np.array(1, np.float32)}, cancel=token)
    time.sleep(0.02)
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()


def test_runs_of_a_loop_at_once_give_the_same_bits() -> None:
    """Threads that run a session at the same time each have carried values of their own."""
    session = treadle.Session(looping(40))
    given = [feeds(rate=rate) for rate in (0.1, 0.2, 0.3)]
    assert_same_bits_at_once(session, given, POOLS[2])


def test_the_nodes_of_a_body_have_caps() -> None:
    """A node of a body is known by its name, and a cap on it changes no result."""
    session, given = treadle.Session(looping(3), node_intra_op={"loop1/a": 1}), feeds()
    state, stacked = looped(looping(3), given, 3)
    assert_agrees(session, given, abs(state), np.exp(stacked))


@pytest.mark.parametrize("model", [looping(7), looping(9, below=8.0), scanning((0, 0), (0, 0)), nested(3)],
                         ids=["loop", "condition", "scan", "nested"])  # fmt: skip
def test_results_agree_with_onnx_runtime(model: onnx.ModelProto) -> None:
    """Where ONNX Runtime is installed."""
    onnxruntime = pytest.importorskip("onnxruntime")
    names = {value.name for value in model.graph.input}
    given = {name: array for name, array in {**feeds(), **scan_feeds(0, 6)}.items() if name in names}
    if names == {"x"}:
        given["x"] = np.array([1, -2, 3], np.float32)
    rival = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for result, wanted in zip(treadle.Session(model).run(given).values(), rival.run(None, given), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs", [["n", ""], ["n"]])
def test_a_loop_may_carry_nothing(inputs: list[str]) -> None:
    """Its condition is left empty, as the standard allows; an input that is not listed at all is a fault."""
    stacked = body(
        [node("Mul", ["x", "x"], "square"), node("Identity", ["on"], "again")], LOOP_INPUTS, "again", "square"
    )
    loop = node("Loop", inputs, "y", body=stacked)
    model = helper.make_model(
        helper.make_graph(
            [loop],
            "g",
            [helper.make_tensor_value_info("x", FLOAT, [3]), helper.make_tensor_value_info("n", TensorProto.INT64, [])],
            [helper.make_tensor_value_info("y", FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    if len(inputs) < 2:
        with pytest.raises(ModelError, match="2 or more inputs"):
            treadle.Session(model)
        return
    x = np.arange(3, dtype=np.float32)
    (result,) = treadle.Session(model).run({"x": x, "n": np.array(4)}).values()
    np.testing.assert_array_equal(result, np.broadcast_to(x * x, (4, 3)))
