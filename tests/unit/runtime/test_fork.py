"""Child processes: fork() in every state of the parent, and every start method of multiprocessing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

START = """
import asyncio, multiprocessing, os, signal, sys, threading, time
import numpy as np
import treadle
from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks

model = small.branches(width=192)
inputs = small.inputs_for(model)
session, wanted = None, None

def product(size):
    w = small.ModelWriter()
    w.op("Relu", w.op("MatMul", "x", w.random(size, size)))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (small.FLOAT, [None, size])}, {"y": (small.FLOAT, [None, size])})

def in_child(body):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            body()
            os._exit(0)
        except BaseException as fault:
            os.write(2, repr(fault).encode())
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0

def works():
    "What a child does: it runs what it has inherited, loads and runs what is new, also in the background."
    assert session.run(inputs)["y"].tobytes() == wanted
    again = treadle.Session(model, pool=treadle.Pool("child", intra_op=2))
    assert again.run(inputs)["y"].tobytes() == wanted
    assert session.run_async(inputs).result()["y"].tobytes() == wanted
    small_one = treadle.Session(product(40))
    assert small_one.run({"x": np.ones((3, 40), np.float32)})["y"].shape == (3, 40)
    treadle.threads.set(intra_op=1 + treadle.threads.get().intra_op)
    assert session.run(inputs)["y"].tobytes() == wanted

def load():
    global session, wanted
    session = treadle.Session(model)
    wanted = session.run(inputs)["y"].tobytes()

def meanwhile(body, times=6):
    "Forks while threads repeat `body`, at different moments of it."
    stop = threading.Event()
    def repeat():
        turn = 0
        while not stop.is_set():
            body(turn)
            turn += 1
    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads: thread.start()
    for turn in range(times):
        time.sleep(0.05 + 0.023 * turn)
        in_child(works)
    stop.set()
    for thread in threads: thread.join()
"""


def run(body: str, timeout: float = 110, **environment: str) -> str:
    """Runs `body` in a new process and returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", START + body], cwd=ROOT, env=os.environ | environment, check=False,
        capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


STATES = {
    "unused": "session, wanted = treadle.Session(model), None; works = lambda: session.run(inputs); in_child(works)",
    "idle": "load(); session.run_async(inputs).result(); in_child(works)",
    "running": "load(); meanwhile(lambda _: session.run(inputs))",
    "running in the background": (
        "load(); meanwhile(lambda _: [f.result() for f in [session.run_async(inputs) for _ in range(9)]])"
    ),
    "in a Python task": "load(); python_tasks([lambda: in_child(works)] * 3 + [lambda: session.run(inputs)]).run(X)",
    "in a blocking task": "load(); python_tasks([lambda: in_child(works)] * 2, blocking=True).run(X)",
    "inside limit()": "load()\nwith treadle.threads.limit(intra_op=1): in_child(works)",
    "changing settings": (
        "load(); meanwhile(lambda turn: treadle.threads.set(intra_op=1 + turn % 3, inter_op=1 + turn % 2))"
    ),
    "making pools": "load(); meanwhile(lambda turn: treadle.Pool('made', intra_op=2))",
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_child_works_whatever_its_parent_was_doing(state: str) -> None:
    """
    The child runs inherited sessions, loads new models, changes settings and makes pools; the parent continues.
    """
    run(STATES[state], TREADLE_INTRA_OP_THREADS="3", TREADLE_INTER_OP_THREADS="2")


def test_a_future_of_the_parent_is_not_waited_for_in_a_child() -> None:
    """
    Its run goes on in the parent alone; one that had ended before has its outputs in both.
    """
    run("""
held = threading.Event()
ended = python_tasks([lambda: None]).run_async(X)
ended.result()
future = python_tasks([held.wait]).run_async(X)

def asks():
    assert len(ended.result()) == 1
    async def waits():
        return await future
    for ask in (future.result, future.exception, lambda: asyncio.run(waits())):
        try:
            ask()
        except treadle.errors.RunError as fault:
            assert "begin another here" in str(fault)
        else:
            raise AssertionError("it came from nowhere")

in_child(asks)
in_child(lambda: in_child(asks))
held.set()
assert len(future.result()) == 1
""")


def test_a_child_works_though_its_parent_was_compiling() -> None:
    """
    Threads of the parent compile all the time: other models, and a session's plan that the child needs as well.
    """
    body = """
load()
shared = treadle.Session(product(48))
def compile(turn):
    treadle.Session(product(8 * (turn % 30) + 64)).run({"x": np.ones((1 + turn % 7, 8 * (turn % 30) + 64), np.float32)})
    shared.run({"x": np.ones((1 + turn, 48), np.float32)})
inherited = works
def works():
    for rows in range(1, 30):
        assert shared.run({"x": np.ones((rows, 48), np.float32)})["y"].shape == (rows, 48)
    inherited()
meanwhile(compile)
"""
    run(body, TREADLE_CACHE="off", TREADLE_PLAN_CACHE="2")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works(method: str, tmp_path: Path) -> None:
    """
    Pools and processes of each kind, made while the parent runs, give the parent's results.
    """
    body = """
def work(seed):
    signal.alarm(60)
    if session is None: load()
    assert session.run(inputs)["y"].tobytes() == wanted
    return wanted

if __name__ == "__main__":
    load()
    mine, stop = session, threading.Event()
    def client():
        while not stop.is_set(): mine.run(inputs)
    clients = [threading.Thread(target=client) for _ in range(2)]
    for each in clients: each.start()
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        assert pool.map(work, range(6)) == [wanted] * 6
    single = context.Process(target=work, args=(0,))
    single.start()
    single.join()
    assert single.exitcode == 0
    stop.set()
    for each in clients: each.join()
    print("good")
"""
    program = tmp_path / "program.py"
    program.write_text(START + body)
    done = subprocess.run(
        [sys.executable, str(program), method], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


def test_a_forked_child_does_without_openmp_and_warns() -> None:
    """
    Its runtime would wait for threads that did not come along: the child goes on with the native backend, warns once,
    and refuses OpenMP; a parent that has run nothing loses nothing.
    """
    body = """
import warnings
from treadle.errors import BackendError, ThreadSettingWarning
def chosen(): return treadle.threads.info()["build"]["backend"]
def child():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        works()
    assert [warning.category for warning in caught] == [ThreadSettingWarning], caught
    assert "openmp" in str(caught[0].message) and chosen() == "native"
    try: treadle.threads.set_backend("openmp")
    except BackendError as fault: assert "fork" in str(fault)
    else: raise AssertionError("OpenMP was taken")
def informed_child():
    treadle.threads.set_backend("native")
    warnings.simplefilter("error", ThreadSettingWarning)
    works()
def first_child():
    load()
    assert chosen() == "openmp"
treadle.threads.set_backend("openmp")
in_child(first_child)
load()
assert chosen() == "openmp"
in_child(child)
in_child(lambda: in_child(child))
in_child(informed_child)
works()
"""
    run(body, TREADLE_INTRA_OP_THREADS="3")
