"""A process that keeps its budget of threads as busy as it can, to be watched from outside.

Arguments: intra_op, inter_op, teams of its own, seconds. Prints `ready` when the load is on, then runs for the seconds.
"""

from __future__ import annotations

import sys
import threading
import time

from onnx import ModelProto

from tests.models import small
from weft import Session, _native, threads

CLIENTS = 3
ROWS, WIDTH = 1536, 1024


def towers(count: int) -> ModelProto:
    """Independent pairs of products of tens of ms each, so that what is seen is work and not the change of hands."""
    w = small.ModelWriter()
    ends = [w.op("MatMul", w.op("MatMul", "x", w.random(WIDTH, WIDTH)), w.random(WIDTH, WIDTH)) for _ in range(count)]
    w.op("ReduceMax", w.op("Sum", *ends), axes=[0, 1], keepdims=0)
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (small.FLOAT, [ROWS, WIDTH])}, {"y": (small.FLOAT, [])})


def nested(session: Session, inputs: dict, team: _native.Team) -> _native.Program:
    """Four Python steps: two that run the session again, one that computes, one that waits outside."""
    session.run(inputs)
    bodies = [lambda _: session.run(inputs), lambda _: session.run(inputs), lambda _: sum(range(20_000))]
    steps = [(body, [], [], 1, 1e7) for body in [*bodies, lambda _: time.sleep(0.002)]]
    tasks = [(i, 1, 1.0, i == len(bodies)) for i in range(len(steps))]
    return _native.Program(steps, tasks, [[] for _ in steps], [], 0, 0)


def main(intra_op: int, inter_op: int, own_teams: int, seconds: float) -> None:
    """Load the process's team from sessions, clients and nested runs; teams of its own likewise."""
    threads.set(intra_op=intra_op, inter_op=inter_op)
    models = [towers(3), towers(2)]
    feeds = [small.inputs_for(model) for model in models]
    sessions = [Session(model) for model in models]
    end = threading.Event()

    def client(number: int) -> None:
        session, inputs = sessions[number % 2], feeds[number % 2]
        while not end.is_set():
            session.run(inputs)

    def nesting_client(team: _native.Team) -> None:
        program = nested(sessions[0], feeds[0], team)
        while not end.is_set():
            program.run(team, [])

    def own_client(team: _native.Team) -> None:
        plans = sessions[0]._plans.all()
        arrays = list(feeds[0].values())
        while not end.is_set():
            plans[0].run(arrays, team)

    teams = [_native.Team(f"own{i}", intra_op, inter_op) for i in range(own_teams)]
    clients = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    clients += [threading.Thread(target=nesting_client, args=(threads.default_team(),))]
    clients += [threading.Thread(target=own_client, args=(team,)) for team in teams for _ in range(2)]
    for thread in clients:
        thread.start()
    time.sleep(0.3)
    print("ready", flush=True)  # noqa: T201
    time.sleep(seconds)
    end.set()
    for thread in clients:
        thread.join()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), float(sys.argv[4]))
