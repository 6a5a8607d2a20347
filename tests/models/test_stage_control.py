"""Runs end, and branches and loops run, inside the stages behind sizes that depend on data."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.at_once import wait_for_a_run
from tests.models.small import FLOAT, ModelWriter
from treadle.errors import RunCancelledError, RunTimeoutError

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def slow_rows(width: int = 1000, layers: int = 200) -> onnx.ModelProto:
    """Layers on chosen rows of x: seconds of work if all rows are chosen."""
    w = ModelWriter()
    y = w.op("Gather", "x", w.op("Squeeze", w.op("NonZero", "keep"), w.constant(np.array([0]))))
    weights = w.random(width, width)
    for _ in range(layers):
        y = w.op("MatMul", y, weights)
    return w.model({"x": (FLOAT, [width, width]), "keep": (BOOL, [width])}, {y: (FLOAT, ["kept", width])})


def test_a_run_ends_inside_a_stage() -> None:
    """By its timeout, and when it is cancelled. The session may be used again."""
    session = treadle.Session(slow_rows())
    x = np.zeros((1000, 1000), np.float32)
    few = {"x": x, "keep": np.arange(1000) < 3}
    (wanted,) = session.run(few).values()  # compiles
    slow = {"x": x, "keep": np.ones(1000, bool)}
    with pytest.raises(RunTimeoutError):
        session.run(slow, timeout=0.05)
    token = treadle.CancelToken()
    future = session.run_async(slow, cancel=token)
    time.sleep(0.02)
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()

    (again,) = session.run(few).values()
    np.testing.assert_array_equal(again, wanted)


def choosing(result: str) -> onnx.GraphProto:
    """A body that keeps the positive numbers of x."""
    axis = numpy_helper.from_array(np.array([0]), "axis")
    nodes = [
        helper.make_node("NonZero", ["above"], ["places"], name="find"),
        helper.make_node("Squeeze", ["places", "axis"], ["flat"], name="flatten"),
        helper.make_node("Gather", ["x", "flat"], ["kept"], name="pick"),
        helper.make_node("ReduceSum", ["kept"], [result], name="sum", keepdims=0),
    ]
    return helper.make_graph(nodes, "body", [], [helper.make_empty_tensor_value_info(result)], [axis])


def run_both(model: onnx.ModelProto, *feeds: Mapping[str, np.ndarray]) -> None:
    for threads in (1, 2):
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        for given in feeds:
            wanted = ReferenceEvaluator(model).run(None, dict(given))
            for got, array in zip(session.run(dict(given)).values(), wanted, strict=True):
                assert (got.shape, got.dtype) == (array.shape, array.dtype)
                np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-6)


def test_a_branch_has_sizes_that_depend_on_data() -> None:
    """The number of elements is found in the body that is taken."""
    w = ModelWriter()
    above = w.op("Cast", w.op("Greater", "x", w.constant(np.float32(0))), to=INT64)
    w.nodes.append(helper.make_node("Identity", [above], ["above"], name="above"))
    none = helper.make_node("ReduceSum", ["x"], ["all"], name="all", keepdims=0)
    other = helper.make_graph([none], "other", [], [helper.make_empty_tensor_value_info("all")])
    y = w.op("If", "a", then_branch=choosing("chosen"), else_branch=other)
    model = w.model({"x": (FLOAT, [12]), "a": (BOOL, [])}, {w.op("Neg", y): (FLOAT, [])})
    x = np.random.default_rng(0).standard_normal(12).astype(np.float32)
    run_both(model, *({"x": sign * x, "a": np.array(a)} for sign in (1, -1) for a in (True, False)))


def chosen_loop(name: str, width: int = 32) -> onnx.ModelProto:
    """A loop, whose node has this name, on as many columns as a mask keeps: iterations in a stage."""
    weights = numpy_helper.from_array(np.eye(width, dtype=np.float32), "weights")
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["weights", "state"], ["product"], name="multiply"),
        helper.make_node("Tanh", ["product"], ["next"], name="bound"),
        helper.make_node("Identity", ["more"], ["go_on"], name="keep"),
    ]
    states = [helper.make_empty_tensor_value_info(each) for each in ("state", "next")]
    body = helper.make_graph(
        nodes, "body", [value("i", INT64, []), value("more", BOOL, []), states[0]],
        [value("go_on", BOOL, []), states[1]], [weights]
    )  # fmt: skip
    w = ModelWriter()
    places = w.op("Squeeze", w.op("NonZero", "keep"), w.constant(np.array([0])))
    kept = w.op("Gather", "x", places, axis=1)
    w.nodes.append(helper.make_node("Loop", ["count", w.constant(np.array(True)), kept], ["y"], name=name, body=body))
    inputs: dict[str, tuple[int, list[object]]] = {
        "x": (FLOAT, [width, width]), "keep": (BOOL, [width]), "count": (INT64, [])
    }  # fmt: skip
    return w.model(inputs, {"y": (FLOAT, [width, "kept"])})


def test_runs_with_bodies_in_stages_go_by_priority(tmp_path: Path) -> None:
    """Of the runs that wait for the only slot, the one with the highest priority is next. Its iterations are not
    interrupted by runs of a lower priority."""
    pool = treadle.Pool(intra_op=1, inter_op=1)
    priorities = [0, 2, -1, 3]
    sessions = [treadle.Session(chosen_loop(f"loop {number}"), pool=pool) for number in range(len(priorities) + 1)]
    given = {"x": np.ones((32, 32), np.float32), "keep": np.arange(32) < 5}
    for session in sessions:
        session.run({**given, "count": np.array(1)})  # compiles

    with treadle.trace(tmp_path / "trace.json") as recording:
        token = treadle.CancelToken()
        holder = sessions[-1].run_async({**given, "count": np.array(1 << 40)}, cancel=token, priority=4)
        wait_for_a_run(pool)
        clients = []
        for number, priority in enumerate(priorities):
            run = {"inputs": {**given, "count": np.array(100)}, "priority": priority}
            clients.append(threading.Thread(target=sessions[number].run, kwargs=run))
            clients[-1].start()
            while pool.threads.status()["waiting"] <= number:
                time.sleep(0.001)
        token.cancel()
        with pytest.raises(RunCancelledError):
            holder.result()
        for client in clients:
            client.join()

    loops = sorted((event for event in recording.events if event.op == "loop"), key=lambda event: event.start)
    assert [event.node for event in loops if event.node != "loop 4"] == ["loop 3", "loop 1", "loop 0", "loop 2"]
    assert all(before.end <= after.start for before, after in itertools.pairwise(loops))
    stages = [event for event in recording.events if event.op == "data_stage"]
    assert all(any(stage.start <= loop.start and loop.end <= stage.end for stage in stages) for loop in loops)
    assert {event.iteration for event in recording.events} >= set(range(100))
