"""A process that uses all of its slots, for tests that count its threads from outside.

Each line of its stdin has intra_op, inter_op and the number of pools of its own. Prints `ready` when all of that load
runs. Stops it at the next line, and itself when its stdin is closed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from onnx import ModelProto

from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks
from treadle import Pool, Session, threads

CLIENTS = 3
ROWS, WIDTH = 6144, 1024


def towers(count: int) -> ModelProto:
    """Independent pairs of products of tens of ms each, so that samples show work rather than hand-overs."""
    w = small.ModelWriter()
    ends = [w.op("MatMul", w.op("MatMul", "x", w.random(WIDTH, WIDTH)), w.random(WIDTH, WIDTH)) for _ in range(count)]
    w.op("ReduceMax", w.op("Sum", *ends), axes=[0, 1], keepdims=0)
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (small.FLOAT, [ROWS, WIDTH])}, {"y": (small.FLOAT, [])})


def data_dependent() -> Session:
    """A product by NumPy (Einsum of "..." has no kernel) of the result of NonZero: a Python step between two stages."""
    w = small.ModelWriter()
    found = w.op("Cast", w.op("NonZero", "x"), to=small.FLOAT)
    product = w.op("Einsum", found, "w", equation="...ij,...jk->...ik")
    w.op("ReduceMax", product, axes=[0, 1], keepdims=0)
    w.nodes[-1].output[0] = "y"
    return Session(w.model({"x": (small.FLOAT, [40, 40]), "w": (small.FLOAT, [1600, 2000])}, {"y": (small.FLOAT, [])}))


def nested(session: Session, inputs: dict) -> Session:
    """Python functions: two run the session again, one of them by run_async; two compute, one of them with NumPy."""
    matrix = np.ones((700, 700), np.float32)
    return python_tasks(
        [
            lambda: session.run(inputs),
            lambda: session.run(inputs),
            lambda: session.run_async(inputs).result(),
            lambda: matrix @ matrix,
            lambda: sum(range(20_000)),
        ]
    )


def main() -> None:
    """Makes the sessions, then puts one load after another on them.

    Everything is compiled before the first load, because the thread that makes a session compiles beside the team.
    """
    models = [towers(3), towers(2)]
    feeds = [small.inputs_for(model) for model in models]
    sessions = [Session(model) for model in models]
    outer = nested(sessions[0], feeds[0])
    waiting = python_tasks([lambda: time.sleep(0.002)] * 2, blocking=True)
    dependent = data_dependent()
    found = {"x": np.ones((40, 40), np.float32), "w": np.ones((1600, 2000), np.float32)}
    for session, inputs in ((outer, X), (waiting, X), (dependent, found)):
        session.run(inputs)

    def client(end: threading.Event, number: int) -> None:
        session, inputs = sessions[number % 2], feeds[number % 2]
        while not end.is_set():
            session.run(inputs)

    def nesting_client(end: threading.Event) -> None:
        while not end.is_set():
            outer.run(X)
            waiting.run(X)

    def dependent_client(end: threading.Event) -> None:
        while not end.is_set():
            dependent.run(found)

    def own_client(end: threading.Event, pool: Pool) -> None:
        while not end.is_set():
            sessions[0].run(feeds[0], pool=pool)

    @contextmanager
    def load(intra_op: int, inter_op: int, own_teams: int) -> Iterator[None]:
        threads.set(intra_op=intra_op, inter_op=inter_op)
        end = threading.Event()
        pools = [Pool(f"own{i}", intra_op=intra_op, inter_op=inter_op) for i in range(own_teams)]
        clients = [threading.Thread(target=client, args=(end, i)) for i in range(CLIENTS)]
        clients += [threading.Thread(target=each, args=(end,)) for each in (nesting_client, dependent_client)]
        clients += [threading.Thread(target=own_client, args=(end, pool)) for pool in pools for _ in range(2)]
        for thread in clients:
            thread.start()
        time.sleep(0.3)
        yield
        end.set()
        for thread in clients:
            thread.join()

    line = sys.stdin.readline()
    while line:
        with load(*map(int, line.split())):
            print("ready", flush=True)  # noqa: T201
            line = sys.stdin.readline()


if __name__ == "__main__":
    main()
