"""Loops of ONNX models whose carried values change their sizes, or whose iterations nobody has counted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models.at_once import assert_same_bits_at_once
from tests.models.expected import expected_results
from tests.models.small import FLOAT, ModelWriter, node
from treadle.errors import KernelError, RunCancelledError, RunTimeoutError
from treadle.runtime.data_stage import DataStage

Array = np.ndarray[Any, Any]
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2, 5)}
SIZE = 8
X = np.random.default_rng(3).standard_normal((3, SIZE)).astype(np.float32)


def body(nodes: Sequence[onnx.NodeProto], carried: Mapping[str, int], *outputs: str) -> onnx.GraphProto:
    """Returns the body of a Loop whose carried values have these element types; `again` is its condition."""
    formals = {"i": INT64, "on": BOOL, **carried}
    return helper.make_graph(
        list(nodes),
        "body",
        [
            helper.make_tensor_value_info(name, kind, [] if name in ("i", "on") else None)
            for name, kind in formals.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in ("again", *outputs)],
    )


def assert_agrees(session: treadle.Session, model: onnx.ModelProto, *feeds: Mapping[str, Any]) -> None:
    """The results are as expected, with the same bits at all numbers of threads."""
    for each in feeds:
        given = {name: np.asarray(array, np.float32 if name == "most" else None) for name, array in each.items()}
        found = {threads: session.run(given, pool=pool) for threads, pool in POOLS.items()}
        for (name, result), wanted in zip(found[1].items(), expected_results(model, given), strict=True):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
            assert all(results[name].tobytes() == result.tobytes() for results in found.values())


def assert_in_the_run(session: treadle.Session) -> None:
    """No step of a plan runs in Python, and the run calls none between plans."""
    plans = session.plans()
    assert plans
    assert all(call.function is None for plan in plans for call in plan.calls)


def growing(limit: str, *, rows: int | str = 3, then: bool = True) -> onnx.ModelProto:
    """Returns a model whose Loop appends a row to one carried value, keeps the shape of another, and stacks items."""
    w = ModelWriter()
    weights = w.random(SIZE, SIZE)
    nodes = [
        node("ReduceMean", ["s"], "mean", axes=[0]),
        node("MatMul", ["mean", weights], "product"),
        node("Add", ["product", "k"], "row"),
        node("Concat", ["s", "row"], "longer", axis=0),
        node("Tanh", ["row"], "next"),
        node("Shape", ["longer"], "shape"),
        node("ReduceSum", ["next"], "sum", keepdims=0),
        node("Less", ["sum", "most"], "again"),
    ]
    step = body(nodes, {"s": FLOAT, "k": FLOAT}, "longer", "next", "row", "shape")
    k = w.op("ReduceMax", "x", axes=[0])
    y = w.op("Loop", limit, "", "x", k, outputs=4, body=step)
    ends = [w.op("Softmax", w.op("MatMul", y, w.random(SIZE, SIZE))), w.op("Neg", f"{y}_2")] if then else [y, f"{y}_2"]
    inputs: dict[str, tuple[int, list[Any]]] = {"x": (FLOAT, [rows, SIZE]), "most": (FLOAT, [])}
    if limit == "n":
        inputs["n"] = (INT64, [])
    outputs = {**dict.fromkeys((*ends, f"{y}_1"), (FLOAT, None)), f"{y}_3": (INT64, None)}
    return w.model(inputs, outputs)


@pytest.mark.parametrize("then", [True, False])
@pytest.mark.parametrize("rows", [3, "rows"])
def test_a_carried_value_grows(rows: int | str, then: bool) -> None:
    """The number of iterations depends on an input and on data; each iteration binds the body to another size."""
    model = growing("n", rows=rows, then=then)
    session = treadle.Session(model)
    assert_agrees(session, model, *({"x": X, "n": n, "most": 1e9} for n in (1, 2, 7, 100)), {"x": X, "n": 9, "most": 1})
    assert_in_the_run(session)


def test_nothing_is_compiled_for_another_number_of_iterations() -> None:
    model = growing("n", rows="rows")
    session = treadle.Session(model)
    session.run({"x": X, "n": np.array(3), "most": np.float32(1e9)})
    compiles = session.compiles
    for n in (20, 200):
        session.run({"x": X[:2], "n": np.array(n), "most": np.float32(1e9)})
    assert session.compiles == compiles


def test_a_loop_without_iterations_gives_what_it_began_with() -> None:
    model = growing("n")
    session = treadle.Session(model)
    results = list(session.run({"x": X, "n": np.array(0), "most": np.float32(0)}).values())
    assert [result.shape for result in results] == [(3, SIZE), (0, 1, SIZE), (1, SIZE), (0, 2)]
    np.testing.assert_array_equal(results[2], X.max(axis=0, keepdims=True))


def stacking(name: str = "") -> onnx.GraphProto:
    """Returns a body that stacks its carried value, and ends the loop when the sum of it is not below `most`."""
    nodes = [
        node("Mul", ["s", "s"], f"{name}square"),
        node("Add", [f"{name}square", "x"], f"{name}next"),
        node("ReduceSum", [f"{name}next"], f"{name}sum", keepdims=0),
        node("Less", [f"{name}sum", "most"], "again"),
    ]
    return body(nodes, {"s": FLOAT}, f"{name}next", f"{name}next")


@pytest.mark.parametrize("limit", ["", "huge"])
def test_stacked_values_grow_without_a_limit(limit: str) -> None:
    w = ModelWriter()
    if limit:
        limit = w.constant(np.array(np.iinfo(np.int64).max))
    y = w.op("Loop", limit, "", "x", outputs=2, body=stacking())
    model = w.model(
        {"x": (FLOAT, [2, 3]), "most": (FLOAT, [])},
        {y: (FLOAT, None), w.op("Exp", w.op("Neg", f"{y}_1")): (FLOAT, None)},
    )
    session = treadle.Session(model)
    x = np.full((2, 3), 0.3, np.float32)
    assert_agrees(session, model, {"x": x, "most": 2}, {"x": x, "most": 1e20})
    assert_in_the_run(session)


def test_a_condition_may_forbid_the_first_iteration() -> None:
    w = ModelWriter()
    y = w.op("Loop", "", "c", "x", outputs=2, body=stacking())
    model = w.model(
        {"x": (FLOAT, [2]), "most": (FLOAT, []), "c": (BOOL, [])}, {y: (FLOAT, None), f"{y}_1": (FLOAT, None)}
    )
    session = treadle.Session(model)
    x = np.full(2, 0.5, np.float32)
    assert_agrees(session, model, {"x": x, "most": 9, "c": np.array(True)})
    last, stacked = session.run({"x": x, "most": np.array(9, np.float32), "c": np.array(False)}).values()
    np.testing.assert_array_equal(last, x)
    assert stacked.shape == (0, 2)
    assert_in_the_run(session)


def decoding(*, tokens: int | str = "tokens", hidden: int = 16, vocabulary: int = 37) -> onnx.ModelProto:
    """Returns a model that decodes greedily in a Loop: tokens and the past of an attention grow up to an end."""
    w = ModelWriter(5)
    table, query, key = w.random(vocabulary, hidden), w.random(hidden, hidden), w.random(hidden, hidden)
    end, last, axis = w.constant(np.array([[3]])), w.constant(np.array([-1])), w.constant(np.array([1]))
    stop = w.constant(np.array([np.iinfo(np.int64).max]))
    head = w.op("Transpose", table, perm=[1, 0])
    nodes = [
        node("Slice", ["ids", last, stop, axis], "newest"),
        node("Gather", [table, "newest"], "embedded"),
        node("MatMul", ["embedded", query], "q"),
        node("MatMul", ["embedded", key], "k"),
        node("Concat", ["past", "k"], "present", axis=1),
        node("Transpose", ["present"], "turned", perm=[0, 2, 1]),
        node("MatMul", ["q", "turned"], "scores"),
        node("Softmax", ["scores"], "weights", axis=-1),
        node("MatMul", ["weights", "present"], "context"),
        node("Add", ["context", "embedded"], "sum"),
        node("MatMul", ["sum", head], "logits"),
        node("ArgMax", ["logits"], "best", axis=-1, keepdims=0),
        node("Concat", ["ids", "best"], "longer", axis=1),
        node("Equal", ["best", end], "ended"),
        node("Not", ["ended"], "going"),
        node("Squeeze", ["going"], "again"),
    ]
    past = w.constant(np.zeros((1, 0, hidden), np.float32))
    y = w.op(
        "Loop", "n", "", "start", past, outputs=2, body=body(nodes, {"ids": INT64, "past": FLOAT}, "longer", "present")
    )
    return w.model({"start": (INT64, [1, tokens]), "n": (INT64, [])}, {y: (INT64, None), f"{y}_1": (FLOAT, None)})


def test_greedy_decoding_runs_in_one_run() -> None:
    model = decoding()
    session = treadle.Session(model)
    starts = (np.array([[7]]), np.array([[1, 2, 30]]))
    assert_agrees(session, model, *({"start": start, "n": n} for start in starts for n in (1, 12, 90)))
    assert_in_the_run(session)


def test_loops_follow_each_other() -> None:
    """What follows a loop is a loop whose sizes depend on the first one."""
    w = ModelWriter()
    nodes = [node("Identity", ["on"], "again"), node("Concat", ["s", "x"], "longer", axis=0)]
    first = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "longer"))
    nodes = [
        node("Identity", ["on"], "again2"),
        node("Concat", ["t", first], "longer2", axis=1),
        node("ReduceSum", ["longer2"], "sum2", keepdims=0),
    ]
    second_body = body(nodes, {"t": FLOAT}, "longer2", "sum2")
    second_body.output[0].name = "again2"
    second = w.op("Loop", "n", "", first, outputs=2, body=second_body)
    model = w.model(
        {"x": (FLOAT, ["r", 2]), "n": (INT64, [])}, {w.op("Neg", second): (FLOAT, None), f"{second}_1": (FLOAT, None)}
    )
    session = treadle.Session(model)
    assert_agrees(session, model, *({"x": X[:, :2], "n": n} for n in (1, 3, 6)))
    assert_in_the_run(session)


@pytest.mark.parametrize("depth", [1, 30])
def test_a_growing_loop_has_loops_inside(depth: int) -> None:
    """The loop that changes sizes is around loops that keep them."""
    inner = node("Add", ["s", "bias"], "deep0")
    for level in range(depth):
        step = helper.make_graph(
            [inner, node("Identity", [f"on{level}"], f"again{level}")],
            "body",
            [
                helper.make_tensor_value_info(f"i{level}", INT64, []),
                helper.make_tensor_value_info(f"on{level}", BOOL, []),
                helper.make_tensor_value_info(f"c{level}", FLOAT, None),
            ],
            [helper.make_empty_tensor_value_info(name) for name in (f"again{level}", f"deep{level}")],
        )
        inner = node("Loop", ["one", "", "s"], f"deep{level + 1}", body=step)
    nodes = [
        inner,
        node("Concat", [f"deep{depth}", "x"], "longer", axis=0),
        node("Identity", ["on"], "again"),
    ]
    w = ModelWriter()
    one, bias = w.constant(np.array(1)), w.random(SIZE)
    w.nodes += [node("Identity", [one], "one"), node("Identity", [bias], "bias")]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "longer"))
    model = w.model({"x": (FLOAT, [3, SIZE]), "n": (INT64, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    assert_agrees(session, model, {"x": X, "n": 4})
    assert_in_the_run(session)


def test_bodies_with_branches_and_loops_are_bound_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only their first sizes, of which there is no template yet, call it."""
    calls: list[Sequence[int]] = []
    miss = DataStage.miss
    monkeypatch.setattr(DataStage, "miss", lambda stage, sizes: (calls.append(sizes), miss(stage, sizes))[1])
    w = ModelWriter()
    w.nodes.append(node("Identity", [w.random(SIZE)], "bias"))
    two, most = w.constant(np.array(2)), w.constant(np.float32(4))
    twice = helper.make_graph(
        [node("Identity", ["on2"], "again2"), node("Add", ["s2", "bias"], "next2")],
        "twice",
        [
            helper.make_tensor_value_info("i2", INT64, []),
            helper.make_tensor_value_info("on2", BOOL, []),
            helper.make_tensor_value_info("s2", FLOAT, None),
        ],
        [helper.make_empty_tensor_value_info(name) for name in ("again2", "next2")],
    )
    sides = {
        name: helper.make_graph([node(op, ["added"], name)], name, [], [helper.make_empty_tensor_value_info(name)])
        for name, op in (("then_branch", "Tanh"), ("else_branch", "Neg"))
    }
    nodes = [
        node("Identity", ["on"], "again"),
        node("Loop", [two, "", "s"], "added", body=twice),
        node("ReduceMax", ["added"], "largest", keepdims=0),
        node("Less", ["largest", most], "small"),
        node("If", ["small"], "bounded", **sides),
        node("Concat", ["bounded", "x"], "longer", axis=0),
    ]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "longer"))
    model = w.model({"x": (FLOAT, [3, SIZE]), "n": (INT64, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    assert_agrees(session, model, {"x": X, "n": 3})
    calls.clear()
    assert_agrees(session, model, {"x": X, "n": 70})
    assert not calls


def test_growing_loops_are_inside_one_another() -> None:
    """Each appends a row to what the one inside it gives; the innermost one slices to the number of its iteration."""
    depth = 30
    w = ModelWriter()
    one, two = w.constant(np.array(1)), w.constant(np.array(2))
    first, axis = w.constant(np.array([0])), w.constant(np.array([0]))
    inner = [
        node("Add", ["i0", one], "end"),
        node("Unsqueeze", ["end", axis], "ends"),
        node("Slice", ["x", first, "ends", axis], "rows"),
        node("Concat", ["s0", "rows"], "made0", axis=0),
    ]
    for level in range(depth):
        step = helper.make_graph(
            [*inner, node("Identity", [f"on{level}"], f"again{level}")],
            "body",
            [
                helper.make_tensor_value_info(f"i{level}", INT64, []),
                helper.make_tensor_value_info(f"on{level}", BOOL, []),
                helper.make_tensor_value_info(f"s{level}", FLOAT, None),
            ],
            [helper.make_empty_tensor_value_info(name) for name in (f"again{level}", f"made{level}")],
        )
        start = f"s{level + 1}" if level + 1 < depth else "x"
        limit = two if level in (0, depth - 1) else one
        loop = node("Loop", [limit, "", start], f"deep{level}", body=step)
        inner = [loop, node("Concat", [f"deep{level}", "x"], f"made{level + 1}", axis=0)]
    w.nodes += inner
    model = w.model({"x": (FLOAT, [3, SIZE])}, {f"made{depth}": (FLOAT, None)})
    session = treadle.Session(model)
    assert_agrees(session, model, {"x": X})
    assert_in_the_run(session)


def stacking_longer() -> onnx.ModelProto:
    """Returns a model whose Loop appends `x` to a carried value, and stacks this value too."""
    w = ModelWriter()
    nodes = [node("Identity", ["on"], "again"), node("Concat", ["s", "x"], "longer", axis=0)]
    y = w.op("Loop", "n", "", "x", outputs=2, body=body(nodes, {"s": FLOAT}, "longer", "longer"))
    return w.model({"x": (FLOAT, [2]), "n": (INT64, [])}, {y: (FLOAT, None), f"{y}_1": (FLOAT, None)})


def test_no_items_have_the_shape_that_the_first_would_have() -> None:
    """A loop without iterations asks its body for that."""
    session = treadle.Session(stacking_longer())
    last, stacked = session.run({"x": np.ones(2, np.float32), "n": np.array(0)}).values()
    assert (last.shape, stacked.shape) == ((2,), (0, 4))


def test_items_of_unequal_shapes_are_an_error() -> None:
    """The loop is named, and the session may be used again."""
    model = stacking_longer()
    session = treadle.Session(model)
    x = np.ones(2, np.float32)
    with pytest.raises(KernelError, match=r"loop0.*another shape than the item before it"):
        session.run({"x": x, "n": np.array(2)})
    assert_agrees(session, model, {"x": x, "n": 1})


def test_an_error_in_a_body_names_its_node() -> None:
    w = ModelWriter()
    nodes = [
        node("Identity", ["on"], "again"),
        node("Gather", ["x", "i"], "row", axis=0),
        node("Unsqueeze", ["row", "axis"], "rows"),
        node("Concat", ["s", "rows"], "longer", axis=0),
    ]
    w.nodes.append(node("Identity", [w.constant(np.array([0]))], "axis"))
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "longer"))
    model = w.model({"x": (FLOAT, [3, SIZE]), "n": (INT64, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    with pytest.raises(KernelError, match="row"):
        session.run({"x": X, "n": np.array(9)})
    assert_agrees(session, model, {"x": X, "n": 3})


def endless() -> onnx.ModelProto:
    """Returns a model whose Loop never ends; each iteration transposes the carried value and adds to it."""
    w = ModelWriter()
    nodes = [
        node("Identity", ["on"], "again"),
        node("Transpose", ["s"], "turned", perm=[1, 0]),
        node("Add", ["turned", "rate"], "next"),
    ]
    y = w.op("Loop", "", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    return w.model({"x": (FLOAT, [2, 3]), "rate": (FLOAT, [])}, {y: (FLOAT, None)})


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_without_an_end_stops(threads: int) -> None:
    """At its timeout, and when it is cancelled."""
    session = treadle.Session(endless())
    given = {"x": np.zeros((2, 3), np.float32), "rate": np.array(1, np.float32)}
    with pytest.raises(RunTimeoutError):
        session.run(given, pool=POOLS[threads], timeout=2)
    assert_in_the_run(session)
    token = treadle.CancelToken()
    future = session.run_async(given, pool=POOLS[threads], cancel=token)
    time.sleep(0.05)
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()


def test_runs_at_once_give_the_same_bits() -> None:
    session = treadle.Session(growing("n", rows="rows"))
    given = [{"x": X[:rows], "n": np.array(20 + rows), "most": np.float32(1e9)} for rows in (1, 2, 3)]
    assert_same_bits_at_once(session, given, POOLS[2])


def test_a_trace_shows_iterations(tmp_path: Path) -> None:
    session = treadle.Session(growing("n"))
    given = {"x": X, "n": np.array(4), "most": np.float32(1e9)}
    session.run(given)
    file = tmp_path / "trace.json"
    with treadle.trace(file) as recording:
        session.run(given)
    products = [event for event in recording.events if event.node.startswith("loop1/product")]
    assert [event.iteration for event in products] == [0, 1, 2, 3]
    assert json.loads(file.read_text())["traceEvents"]


_STORED = """
import sys
import numpy as np
import treadle
session = treadle.Session(sys.argv[1])
for n in (2, 6):
    results = session.run({"start": np.array([[7, 1]]), "n": np.array(n)})
    print([result.tobytes().hex() for result in results.values()])
print(session.compiles)
"""


def test_a_loop_is_loaded_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process compiles nothing, and gives the same bits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "model.onnx"
    onnx.save(decoding(), path)
    first, second = (
        subprocess.run([sys.executable, "-c", _STORED, str(path)], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first.splitlines()[:-1] == second.splitlines()[:-1]
    assert second.splitlines()[-1] == "0"
