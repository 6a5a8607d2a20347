"""Bodies of branches and loops are parts of the run they are called in: its team, its limits."""

from __future__ import annotations

import time

import numpy as np
import pytest

import treadle
from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.graph.template import Template
from treadle.ops.call import Nested
from treadle.ops.op import Info

SIZE = 512


@pytest.fixture(autouse=True)
def automatic_threads():
    treadle.threads.set(intra_op=3, inter_op=1)
    yield
    treadle.threads.set(intra_op=0, inter_op=0)


class Repeat(Nested):
    """Its body so many times."""

    def __init__(self, body, count):
        super().__init__(body)
        self.count = count

    def __call__(self, arrays):
        for _ in range(self.count):
            arrays = self.bodies[0](arrays)
        return arrays


def looped(count, **options):
    """A session of a loop whose body is a matrix product named `inner`."""

    def product(forms=None):
        graph = Graph()
        x = graph.input("x", dtypes.f32, (SIZE, SIZE))
        graph.outputs.append(
            graph.add("matmul", [x, graph.constant(np.eye(SIZE, dtype=np.float32), "w")], name="inner").output
        )
        return graph

    form = product()
    body = Template("body", tuple(form.inputs), tuple(form.outputs), product)
    graph = Graph()
    x = graph.input("x", dtypes.f32, (SIZE, SIZE))
    attrs = {
        "function": Repeat(body, count),
        "infer": lambda infos: [Info(infos[0].dtype, infos[0].shape, None)],
        "blocking": False,
        "label": "loop",
    }
    graph.outputs.append(graph.add("call", [x], attrs, name="loop").output)
    return treadle.Session(graph, **options)


X = {"x": np.ones((SIZE, SIZE), np.float32)}


ENDLESS = 1 << 40


def widths(recording):
    """The threads of each inner product."""
    runs = {}
    for event in recording.events:
        if event.node == "inner":
            runs.setdefault(event.run, set()).add(event.thread)
    return [len(threads) for threads in runs.values()]


def widest(tmp_path, session, wanted, **arguments):
    """The most threads of one product in some runs, which go on until there were as many as `wanted`."""
    most = 0
    while most < wanted:
        with treadle.trace(tmp_path / "trace.json") as recording:
            for _ in range(3):
                session.run(X, **arguments)
        most = max(most, *widths(recording))
    return most


def test_limits_of_runs_and_sessions_hold_in_bodies(tmp_path):
    """
    Those of the run, else those of the session as they are at the moment, else those of the process.
    """
    session, confined = looped(8), looped(8, intra_op=1, inter_op=1)
    assert widest(tmp_path, session, 2) >= 2
    assert widest(tmp_path, session, 1, intra_op=1) == 1
    assert widest(tmp_path, confined, 1) == 1
    assert widest(tmp_path, confined, 2, intra_op=3) >= 2
    confined.set(intra_op=3)
    assert widest(tmp_path, confined, 2) >= 2
    confined.set(intra_op=1)
    assert widest(tmp_path, confined, 1) == 1
    with treadle.threads.limit(intra_op=1):
        assert widest(tmp_path, session, 1) == 1


@pytest.mark.parametrize("of", ["session", "run"])
def test_limits_change_in_bodies_of_runs_in_progress(of, tmp_path):
    """
    The products that begin later have them.
    """
    session = looped(ENDLESS, intra_op=1)
    future = session.run_async(X)

    def seen():
        with treadle.trace(tmp_path / "trace.json") as recording:
            time.sleep(0.1)
        return widths(recording)

    before = []
    while len(before) < 10:
        before += seen()
    (session.set if of == "session" else future.set_limits)(intra_op=3)
    while max(seen(), default=0) < 2:
        pass
    assert not future.done()
    future.cancel()
    assert isinstance(future.exception(60), treadle.errors.RunCancelledError)
    assert max(before) == 1


def test_bodies_run_on_the_pool_of_their_run(tmp_path):
    """
    The process's own team has no part in them.
    """
    session, pool = looped(20), treadle.Pool(intra_op=3, inter_op=1)
    session.run(X, intra_op=1)
    with treadle.trace(tmp_path / "trace.json") as recording:
        session.run(X, pool=pool)
    mine = {event.team for event in recording.events if event.node == "loop"}
    assert {event.team for event in recording.events} == mine
    assert pool._threads.team().threads > 0
