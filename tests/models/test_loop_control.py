"""Runs whose loops find their sizes end, are capped and take turns as other runs do."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle
from tests.models.at_once import wait_for_a_run
from tests.models.small import FLOAT, ModelWriter, node, side
from tests.models.test_data_loops import INT64, X, assert_in_the_run, body, endless, growing
from treadle.errors import RunCancelledError, RunTimeoutError

ENDLESS = {"x": np.zeros((2, 3), np.float32), "rate": np.array(1, np.float32)}


def inner(level: int, start: str, limit: str, result: str, *nodes: onnx.NodeProto) -> onnx.NodeProto:
    """Returns a Loop whose body, of `nodes`, makes the value next<level> of the carried s<level>."""
    names = [f"i{level}", f"on{level}", f"s{level}"]
    kinds = (INT64, onnx.TensorProto.BOOL, FLOAT)
    formals = [
        helper.make_tensor_value_info(name, kind, None if kind == FLOAT else [])
        for name, kind in zip(names, kinds, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in (f"again{level}", f"next{level}")]
    step = helper.make_graph([node("Identity", [names[1]], f"again{level}"), *nodes], "inner", formals, made)
    return node("Loop", [limit, "", start], result, body=step)


def endless_inside() -> onnx.ModelProto:
    """Returns a model whose growing Loop has one inside that never ends."""
    w = ModelWriter()
    w.nodes.append(node("Identity", [w.constant(np.array(np.iinfo(np.int64).max))], "most"))
    nodes = [
        node("Identity", ["on"], "again"),
        inner(1, "x", "most", "deep", node("Transpose", ["s1"], "next1", perm=[1, 0])),
        node("Concat", ["s", "deep"], "next", axis=0),
    ]
    y = w.op("Loop", "", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    return w.model({"x": (FLOAT, [2, 2])}, {y: (FLOAT, None)})


def endless_search() -> onnx.ModelProto:
    """Returns a model whose Loop never ends: an If in its body chooses rows, whose number depends on data."""
    w = ModelWriter()
    zero, one = w.constant(np.array([0])), w.constant(np.array([1]))
    limit = w.constant(np.float32(1e30))
    chosen = [
        node("ReduceSum", ["s", one], "sums", keepdims=0),
        node("Less", ["sums", limit], "mask"),
        node("Compress", ["s", "mask"], "chosen", axis=0),
    ]
    others = [node("Slice", ["s", zero, one, zero], "first")]
    nodes = [
        node("Identity", ["on"], "again"),
        node("ReduceSum", ["s"], "sum", keepdims=0),
        node("Less", ["sum", limit], "few"),
        node("If", ["few"], "next", then_branch=side(chosen, "chosen"), else_branch=side(others, "first")),
    ]
    y = w.op("Loop", "", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    return w.model({"x": (FLOAT, [2, 2])}, {y: (FLOAT, None)})


SQUARE = {"x": np.ones((2, 2), np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("model", "given"), [(endless, ENDLESS), (endless_search, SQUARE)])
def test_ctrl_c_ends_a_loop_that_finds_sizes(
    model: Callable[[], onnx.ModelProto], given: dict[str, np.ndarray], threads: int
) -> None:
    session = treadle.Session(model())
    pool = treadle.Pool(intra_op=threads, inter_op=threads)
    with pytest.raises(RunTimeoutError):
        session.run(given, pool=pool, timeout=1)  # compiles
    interrupt = threading.Timer(0.2, _thread.interrupt_main)
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        session.run(given, pool=pool, timeout=60)
    interrupt.join()
    with pytest.raises(RunTimeoutError):
        session.run(given, pool=pool, timeout=0.05)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", [endless_inside, endless_search])
def test_a_loop_around_bodies_that_find_sizes_ends_with_its_run(
    model: Callable[[], onnx.ModelProto], threads: int
) -> None:
    """At its timeout, and when it is cancelled."""
    session = treadle.Session(model())
    pool = treadle.Pool(intra_op=threads, inter_op=threads)
    given = SQUARE
    with pytest.raises(RunTimeoutError):
        session.run(given, pool=pool, timeout=2)
    assert_in_the_run(session)
    token = treadle.CancelToken()
    future = session.run_async(given, pool=pool, cancel=token)
    wait_for_a_run(pool)
    time.sleep(0.05)  # the loop inside has begun by then
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()


def test_a_run_of_higher_priority_goes_before_the_next_iteration() -> None:
    """On the only slot, also if the loop is inside another one. The loop goes on afterwards."""
    pool = treadle.Pool(intra_op=1, inter_op=1)
    urgent = treadle.Session(growing("n"), pool=pool)
    short = {"x": X, "n": np.array(3), "most": np.float32(1e9)}
    wanted = urgent.run(short)
    for model, given in ((endless(), ENDLESS), (endless_inside(), SQUARE), (endless_search(), SQUARE)):
        session = treadle.Session(model, pool=pool)
        with pytest.raises(RunTimeoutError):
            session.run(given, timeout=1)  # compiles
        token = treadle.CancelToken()
        future = session.run_async(given, cancel=token)
        wait_for_a_run(pool)
        for _ in range(3):
            found = urgent.run(short, priority=1, timeout=60)
            assert all(found[name].tobytes() == result.tobytes() for name, result in wanted.items())
        assert not future.done()
        token.cancel()
        with pytest.raises(RunCancelledError):
            future.result()
    end = time.monotonic() + 30
    while pool.threads.status()["slots"]:  # the thread of the last run gives its slot back after its result
        assert time.monotonic() < end
        time.sleep(0.001)


def wide(*, chosen: bool) -> onnx.ModelProto:
    """Returns a model whose Loop multiplies many rows by a matrix, and appends some of the products.

    If these are `chosen`, the rows are those that Compress finds.
    """
    w = ModelWriter()
    zero, one = w.constant(np.array([0])), w.constant(np.array([1]))
    nodes = [
        node("Identity", ["on"], "again"),
        node("ReduceMax", ["s"], "largest", axes=[1], keepdims=0),
        node("Cast", ["largest"], "mask", to=onnx.TensorProto.BOOL),
        node("Compress", ["s", "mask"], "rows", axis=0) if chosen else node("Identity", ["s"], "rows"),
        node("MatMul", ["rows", w.random(512, 512)], "product"),
        node("Slice", ["product", zero, one], "first"),
        node("Concat", ["s", "first"], "next", axis=0),
    ]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    return w.model({"x": (FLOAT, [512, 512]), "n": (INT64, [])}, {y: (FLOAT, None)})


@pytest.mark.parametrize("chosen", [False, True])
def test_a_cap_holds_in_a_loop_that_finds_sizes(tmp_path: Path, chosen: bool) -> None:
    """Before the first run, and when it changes later."""
    pool = treadle.Pool(intra_op=2, inter_op=1)
    model = wide(chosen=chosen)
    given = {"x": np.full((512, 512), 1e-3, np.float32), "n": np.array(4)}

    def workers(session: treadle.Session) -> int:
        with treadle.trace(tmp_path / "trace.json") as recording:
            session.run(given)
        products = [event for event in recording.events if event.node == "loop0/product"]
        assert {event.iteration for event in products} == set(range(4))
        return max(len({event.worker for event in products if event.iteration == number}) for number in range(4))

    name = "loop0/product"
    capped = treadle.Session(model, pool=pool, node_intra_op={name: 1})
    capped.run(given)
    assert workers(capped) == 1
    free = treadle.Session(model, pool=pool)
    free.run(given)
    for _ in range(100):  # until the second worker has come in time once
        if workers(free) == 2:
            break
    else:
        pytest.fail("no second worker shared the products")
    free.set(node_intra_op={name: 1})
    assert workers(free) == 1
