"""Caps on the workers of single nodes: those of the model, of the session, and which counts."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks

import treadle
from treadle.compile import runner_of
from treadle.errors import ThreadSettingError
from treadle.model_compiler import names_of
from treadle.plan_store import Restored
from treadle.runtime.caps import checked_caps, effective_caps

SETTLED_NS = 30_000_000
"""How long after a change an op must have begun to be counted: the change is noted after it is in force."""


@pytest.fixture(autouse=True)
def automatic_threads():
    yield
    treadle.threads.set(intra_op=0, inter_op=0)


def caps(session):
    return {call.node: call.max_workers for plan in session.plans() for call in plan.calls if call.op != "reorder"}


@pytest.mark.parametrize("name", small.MODELS)
def test_a_models_own_caps_survive_every_fusion(name):
    """
    metadata_props of an ONNX node cap its workers, whatever it is fused into; results do not change.
    """
    model = small.MODELS[name]()
    inputs = small.inputs_for(model)
    plain = treadle.Session(model)
    wanted = plain.run(inputs)["y"]
    for number, node in enumerate(model.graph.node):
        node.name = f"node{number}"
        entry = node.metadata_props.add()
        entry.key, entry.value = "treadle.intra_op", "2"
    session = treadle.Session(model)

    assert np.array_equal(session.run(inputs)["y"], wanted)
    assert set(caps(session).values()) == {2}
    assert set(caps(plain).values()) == {0}
    for number in range(len(model.graph.node)):
        session.set(node_intra_op={f"node{number}": 1})
        assert set(caps(session).values()) <= {1, 2}
    session.set(node_intra_op={f"node{number}": 3 for number in range(len(model.graph.node))})
    assert set(caps(session).values()) == {3}
    assert np.array_equal(session.run(inputs)["y"], wanted)
    session.set(node_intra_op={})
    assert set(caps(session).values()) == {2}


def test_fused_nodes_have_the_smallest_of_their_caps():
    """
    A matrix product that takes in its bias and activation is as confined as the most confined of them.
    """
    w = small.ModelWriter()
    w.op("Relu", w.op("Add", w.op("MatMul", "x", w.random(64, 64)), w.random(64)))
    w.nodes[-1].output[0] = "y"
    for node, name in zip(w.nodes, ("product", "bias", "activation"), strict=True):
        node.name = name
    model = w.model({"x": (small.FLOAT, [64, 64])}, {"y": (small.FLOAT, [64, 64])})
    session = treadle.Session(model, node_intra_op={"product": 4, "bias": 1, "activation": 3})
    session.run({"x": np.ones((64, 64), np.float32)})

    assert caps(session) == {"product+bias+activation": 1}


def test_a_capped_node_runs_on_so_many_workers(tmp_path):
    """
    The trace shows one worker for a node capped at one, several for a node without a cap.
    """
    treadle.threads.set(intra_op=4, inter_op=1)
    w = small.ModelWriter()
    w.op("MatMul", "x", w.random(1024, 1024))
    w.nodes[-1].name, w.nodes[-1].output[0] = "product", "y"
    model = w.model({"x": (small.FLOAT, [1024, 1024])}, {"y": (small.FLOAT, [1024, 1024])})
    inputs = {"x": np.ones((1024, 1024), np.float32)}

    def reaches(wanted, session):
        return workers("product", session, inputs, tmp_path, wanted) == wanted

    assert reaches(1, treadle.Session(model, node_intra_op={"product": 1}))
    assert reaches(2, treadle.Session(model, node_intra_op={"product": 2}))
    assert workers("product", treadle.Session(model), inputs, tmp_path, 3) >= 3


def workers(node, session, inputs, folder, wanted):
    """The most workers of a node in some runs, which go on until there were as many as `wanted`."""
    most = 0
    while most < wanted:
        with treadle.trace(folder / "trace.json") as recording:
            for _ in range(10):
                session.run(inputs)
        runs = {}
        for event in recording.events:
            if event.node == node:
                runs.setdefault(event.run, set()).add(event.worker)
        most = max(most, *map(len, runs.values()))
    return most


def products(count, size=1024):
    """A model of `count` matrix products in a row, and inputs for it."""
    w = small.ModelWriter()
    weights, y = w.random(size, size), "x"
    for number in range(count):
        y = w.op("MatMul", y, weights)
        w.nodes[-1].name = f"product{number}"
    w.nodes[-1].output[0] = "y"
    model = w.model({"x": (small.FLOAT, [size, size])}, {"y": (small.FLOAT, [size, size])})
    return model, {"x": np.zeros((size, size), np.float32)}


def changed_caps(session, inputs, names, path, seconds):
    """
    How many threads worked on each op that began some time after a change of the caps, by the cap then in force, which
    lasts so many seconds. Nothing if the run ended meanwhile.
    """
    session.set(node_intra_op={})
    changes = []
    with treadle.trace(path) as recording:
        future = session.run_async(inputs)
        for cap in (0, 1, 0, 1):
            before = time.monotonic_ns()
            session.set(node_intra_op=dict.fromkeys(names, cap))
            changes.append((before, time.monotonic_ns(), cap))
            time.sleep(seconds)
        future.cancel()
        cancelled = isinstance(future.exception(60), treadle.errors.RunCancelledError)
    begun, threads = {}, {}
    for event in recording.events:
        begun.setdefault(event.node, event.start)
        threads.setdefault(event.node, set()).add(event.thread)
    found = []
    for (_, since, cap), (until, _, _) in itertools.pairwise([*changes, (1 << 63, 0, 0)]):
        widths = [len(threads[node]) for node, at in begun.items() if since + SETTLED_NS < at < until]
        found.append((cap, widths))
    return found if cancelled else []


def assert_caps_are_followed(path, count=400):
    """
    No op has more threads than the cap in force, ever; one without a cap has several sooner or later. Caps last longer
    until ops begin under each, and shorter where the run ends before.
    """
    model, inputs = products(count, 768)
    session = treadle.Session(model)
    names = [f"product{number}" for number in range(count)]
    seconds = 0.1
    while True:
        found = changed_caps(session, inputs, names, path, seconds)
        assert all(max(widths, default=1) == 1 for cap, widths in found if cap == 1), found
        if found and all(max(widths, default=0) > (cap == 0) for cap, widths in found):
            return
        seconds *= 1.5 if found else 0.4


def test_caps_of_nodes_change_in_the_middle_of_a_run(tmp_path):
    """
    Uncapped, capped at one, uncapped, capped: each op has as many workers as the cap in force when it begins.
    """
    treadle.threads.set(intra_op=3, inter_op=1)
    assert_caps_are_followed(tmp_path / "trace.json")


def test_caps_of_nodes_change_whoever_spreads_the_ops(tmp_path):
    """
    OpenMP's teams get the width that is in force when an op begins.
    """
    script = f"""
import treadle
from tests.unit.runtime.test_node_caps import assert_caps_are_followed
treadle.threads.set_backend("openmp")
treadle.threads.set(intra_op=3, inter_op=1)
assert_caps_are_followed({str(tmp_path / "trace.json")!r})
"""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_caps_asked_for_take_the_place_of_those_before():
    """
    They go before the model's own, 0 lifts these, {} brings them back, None and other limits leave them; a kept plan
    and one that is compiled later have them.
    """
    w = small.ModelWriter()
    for name in ("a", "b"):
        w.op("Softmax", "x" if name == "a" else w.nodes[-1].output[0], axis=-1)
        w.nodes[-1].name = name
    w.nodes[-1].output[0] = "y"
    model = w.model({"x": (small.FLOAT, ["N", 8])}, {"y": (small.FLOAT, ["N", 8])})
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = "treadle.intra_op", "2"
    session = treadle.Session(model, node_intra_op={"b": 5})
    session.run({"x": np.ones((3, 8), np.float32)})

    assert caps(session) == {"a": 2, "b": 5}
    session.set(node_intra_op={"a": 0})
    assert (caps(session), session.node_intra_op) == ({"a": 0, "b": 0}, {"a": 0})
    session.set(intra_op=2)
    session.set(node_intra_op=None)
    assert session.node_intra_op == {"a": 0}
    session.set(node_intra_op={})
    assert caps(session) == {"a": 2, "b": 0}
    session.set(node_intra_op={"a": 1, "b": 3})
    session.run({"x": np.ones((4, 8), np.float32)})
    assert [call.max_workers for plan in session.plans() for call in plan.calls] == [1, 3] * 2


def test_what_a_node_became_has_its_cap():
    """
    A more specific entry overrides that; the order of the mapping makes no difference.
    """
    own = {"a": 2, "a/product": 2, "a/product/cut": 2, "ab": 2}
    for asked in ({"a": 3, "a/product": 4}, {"a/product": 4, "a": 3}):
        assert effective_caps(own, asked) == {"a": 3, "a/product": 4, "a/product/cut": 4, "ab": 2}
    assert checked_caps({"a/product": 1}, ["a/product/cut"], "here")
    with pytest.raises(ThreadSettingError, match="no node of the model is named ''"):
        checked_caps({"": 1}, ["/a/product"], "here")


def test_caps_reach_a_model_that_is_kept_in_its_compiled_form(tmp_path):
    """
    It needs neither its file nor a compiler for that.
    """
    model, inputs = products(2)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    treadle.Session(path)
    session = treadle.Session(path, node_intra_op={"product1": 1})
    assert isinstance(runner_of(session).plans.all()[0], Restored)
    path.unlink()
    treadle.threads.set(intra_op=3, inter_op=1)

    def reaches(wanted, node):
        return workers(node, session, inputs, tmp_path, wanted) >= wanted

    def stays(most, node):
        return workers(node, session, inputs, tmp_path, most) == most

    assert stays(1, "product1")
    assert reaches(2, "product0")
    session.set(node_intra_op={"product0": 1})
    assert stays(1, "product0")
    assert reaches(2, "product1")
    with pytest.raises(ThreadSettingError, match=r"Session\.set.*'produce0'; did you mean 'product0' or 'product1'"):
        session.set(node_intra_op={"produce0": 1})


def test_caps_change_from_many_threads_and_change_no_bit():
    """
    Also from within a Python task of the run that they are for, and together with the limits of the session.
    """
    model = small.branches()
    session, inputs = treadle.Session(model), small.inputs_for(model)
    names = list(names_of(session.graph))
    wanted = session.run(inputs)["y"]
    over = threading.Event()
    faults = []

    def change(number):
        try:
            while not over.is_set():
                number = number % 4 + 1
                session.set(node_intra_op=dict.fromkeys(names[number % 2 :], number), intra_op=5 - number)
                session.set(node_intra_op={}, inter_op=number)
        except treadle.errors.TreadleError as error:
            faults.append(error)

    changing = [threading.Thread(target=change, args=(number,)) for number in range(3)]
    for each in changing:
        each.start()
    try:
        for _ in range(100):
            assert np.array_equal(session.run(inputs)["y"], wanted)
    finally:
        over.set()
        for each in changing:
            each.join()
    assert not faults

    def task():
        inside.set(node_intra_op={"task1": 2}, intra_op=2, inter_op=2)
        inside.set(node_intra_op={})

    inside = python_tasks([task] * 8)
    assert len(inside.run(X)) == 8


@pytest.mark.parametrize(("value", "text"), [("-1", "-1"), ("many", "'many'"), ("5000", "5000")])
def test_impossible_caps_in_a_model_are_refused(value, text):
    """
    The error names the node, the key and the value.
    """
    model = small.add()
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = "treadle.intra_op", value
    with pytest.raises(ThreadSettingError, match=r"intra_op from metadata treadle.intra_op of node") as caught:
        treadle.Session(model)
    assert text in str(caught.value)


def test_unknown_nodes_and_impossible_caps_are_refused():
    """
    A misspelt name lists those there are.
    """
    with pytest.raises(ThreadSettingError, match=r"no node of the model is named 'nope'; its 1 nodes are"):
        treadle.Session(small.add(), node_intra_op={"nope": 1})
    name = treadle.Session(small.add()).graph.nodes[0].name
    with pytest.raises(ThreadSettingError, match="intra_op from"):
        treadle.Session(small.add(), node_intra_op={name: -2})


@pytest.mark.parametrize("asked", [5, [("y", 1)], {"y": True}, {"y": 1.0}, {"y": 4097}, {"y": None}, {3: 1}, {None: 1}])
def test_impossible_caps_change_nothing(asked):
    """
    At construction and later, whatever is impossible; limits that come with them stay too.
    """
    with pytest.raises(ThreadSettingError, match=r"intra_op from Session\(node_intra_op=\)"):
        treadle.Session(small.add(), node_intra_op=asked)
    session = treadle.Session(small.add(), intra_op=2)
    name = session.graph.nodes[0].name
    session.set(node_intra_op={name: 3})
    with pytest.raises(ThreadSettingError, match=r"intra_op from Session\.set\(node_intra_op=\)"):
        session.set(node_intra_op=asked, intra_op=4)
    with pytest.raises(ThreadSettingError, match=r"inter_op from Session\.set\(inter_op=\)"):
        session.set(node_intra_op={}, inter_op=-1)
    assert (session.node_intra_op, session.get().intra_op) == ({name: 3}, 2)


def test_a_misspelt_name_is_told_before_the_model_is_compiled():
    """
    A model with free shapes is not compiled before its first run.
    """
    model = small.data_dependent()
    with pytest.raises(ThreadSettingError, match="no node of the model is named 'nope'"):
        treadle.Session(model, node_intra_op={"nope": 1})
