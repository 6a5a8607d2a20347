"""Timeouts, cancellation and signals end a run early; its session stays usable."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from tests.models import small
from tests.unit.runtime.slow_models import X, endless_loop, long_kernels, python_tasks

import treadle
from treadle.errors import InputError, RunCancelledError, RunError, RunTimeoutError
from treadle.runtime.control import check_run

ENDS_WITHIN_S = 0.5
"""Of CPU time for each thread, where a run takes 2 s and more: what other load or a stalled machine delays costs
none."""


@pytest.fixture(scope="module")
def long():
    return long_kernels()


@pytest.mark.parametrize("intra", [1, 2])
def test_a_timeout_ends_a_run_of_kernels(long, intra):
    """
    RunTimeoutError comes soon after the time is over, and the session runs on with other limits.
    """
    session, inputs = long
    start, used = time.monotonic(), time.process_time()
    with pytest.raises(RunTimeoutError, match=r"did not end within timeout=0\.1 s") as caught:
        session.run(inputs, timeout=0.1, intra_op=intra, inter_op=intra)

    assert time.monotonic() - start >= 0.1
    assert time.process_time() - used < intra * (0.1 + ENDS_WITHIN_S)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, RunError)
    with pytest.raises(RunTimeoutError):
        session.run(inputs, timeout=0)


def test_a_session_is_usable_after_a_timeout():
    """
    The next run gives right results.
    """
    model = small.branches()
    session, inputs = treadle.Session(model), small.inputs_for(model)
    wanted = session.run(inputs)["y"]
    for _ in range(20):
        with pytest.raises(RunTimeoutError):
            session.run(inputs, timeout=0)
        assert np.array_equal(session.run(inputs, timeout=60)["y"], wanted)


def test_a_token_ends_runs_in_progress_and_to_come(long):
    """
    One token may be given to several runs.
    """
    session, inputs = long
    token = treadle.CancelToken()
    ended = []

    def client():
        with pytest.raises(RunCancelledError):
            session.run(inputs, cancel=token, intra_op=1, inter_op=1)
        ended.append(True)

    clients = [threading.Thread(target=client) for _ in range(3)]
    for thread in clients:
        thread.start()
    time.sleep(0.1)
    assert not ended
    used = time.process_time()
    token.cancel()
    for thread in clients:
        thread.join()

    assert len(ended) == 3
    assert time.process_time() - used < 3 * ENDS_WITHIN_S
    assert token.cancelled
    with pytest.raises(RunCancelledError):
        session.run(inputs, cancel=token)


def test_the_end_of_a_run_ends_nested_runs(long):
    """
    A run called from a Python task ends with the run around it, and the error keeps its type.
    """
    session, inputs = long
    outer = python_tasks([lambda: session.run(inputs, intra_op=1, inter_op=1)])
    used = time.process_time()
    with pytest.raises(RunTimeoutError):
        outer.run(X, timeout=0.1)

    assert time.process_time() - used < 0.1 + ENDS_WITHIN_S


def test_a_loop_of_python_can_be_ended():
    """
    Timeouts and tokens reach an ONNX Loop between its iterations.
    """
    session, token = endless_loop(), treadle.CancelToken()
    with pytest.raises(RunTimeoutError, match=r"timeout=0\.1 s"):
        session.run(X, timeout=0.1)
    threading.Timer(0.1, token.cancel).start()
    with pytest.raises(RunCancelledError):
        session.run(X, cancel=token)
    check_run()  # outside a run it does nothing


MANY = 200
"""Python tasks that are worth a thread more, however cheap they are taken to be."""


class Lasting:
    """A task that goes on until `stop` in other threads than the one that made it."""

    def __init__(self):
        self.inside, self.stop, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.maker = threading.get_ident()

    def __call__(self):
        if threading.get_ident() == self.maker:
            assert self.inside.wait(30)
            return
        self.inside.set()
        assert self.stop.wait(60)
        self.ended.set()
        raise ValueError("too late to be heard of")


@pytest.mark.parametrize(
    ("by", "blocking"),
    [("timeout", False), ("timeout", True), ("token", False), ("token", True), ("future", True)],
)
def test_runs_end_before_their_python_tasks_in_other_threads(by, blocking):
    """
    The caller has its error at once, and the session its next run, on the places that are left. What the task may touch
    lives until it ends; what it raises then is dropped, and its place comes back.
    """
    pool = treadle.Pool(intra_op=2, inter_op=2)
    task = Lasting()
    session = python_tasks([task] * MANY, blocking=blocking, pool=pool)
    other = python_tasks([lambda: None] * 4, pool=pool)
    inputs, token = {"x": np.ones(1, np.float32)}, treadle.CancelToken()
    array = weakref.ref(inputs["x"])
    canceller = threading.Thread(target=lambda: (task.inside.wait(30), token.cancel()))
    canceller.start()
    if by == "timeout":
        for limit in (0.2, 1, 5, 25):  # on a busy machine a worker comes late
            with pytest.raises(RunTimeoutError):
                session.run(inputs, timeout=limit)
            if task.inside.is_set():
                break
    elif by == "token":
        with pytest.raises(RunCancelledError):
            session.run(inputs, cancel=token)
    else:
        with pytest.raises(RunCancelledError):
            session.run_async(inputs, cancel=token).result(30)
    canceller.join()

    assert not task.ended.is_set()
    status = pool.threads.status()
    left = status["abandoned"]
    assert (left, status["slots"], status["runs"]) == (left, 0 if blocking else left, 0)
    assert left >= 1
    for _ in range(3):
        assert len(other.run(X)) == 4
    weak_session = weakref.ref(session)
    del inputs, session
    gc.collect()
    assert array() is not None
    assert weak_session() is None
    task.stop.set()
    end = time.monotonic() + 30
    while (array() is not None or pool.threads.status()["abandoned"]) and time.monotonic() < end:
        time.sleep(0.001)
    gc.collect()
    assert task.ended.is_set()
    assert array() is None
    assert (pool.threads.status()["slots"], pool.threads.status()["abandoned"]) == (0, 0)
    assert len(other.run(X)) == 4


def test_a_pool_may_end_before_a_detached_task():
    """
    The pool's end does not wait for the task; its thread ends with the task.
    """
    task, token = Lasting(), treadle.CancelToken()
    canceller = threading.Thread(target=lambda: (task.inside.wait(30), token.cancel()))
    canceller.start()
    with pytest.raises(RunCancelledError):
        python_tasks([task], blocking=True, pool=treadle.Pool(intra_op=2)).run(X, cancel=token)
    canceller.join()
    gc.collect()
    assert not task.ended.is_set()
    task.stop.set()
    assert task.ended.wait(30)


def test_runs_with_higher_priority_go_first():
    """
    Of the runs that wait for the only slot, the one with the highest priority is next, then the oldest.
    """
    pool = treadle.Pool(intra_op=1, inter_op=1)
    go, inside, order = threading.Event(), threading.Event(), []
    holder = python_tasks([lambda: (inside.set(), go.wait(20))], pool=pool)
    first = threading.Thread(target=holder.run, args=(X,))
    first.start()
    assert inside.wait(10)
    clients = []
    for number, priority in enumerate([0, 3, -1, 3]):
        session = python_tasks([lambda number=number: order.append(number)], pool=pool)
        clients.append(threading.Thread(target=session.run, args=(X,), kwargs={"priority": priority}))
        clients[-1].start()
        while pool.threads.status()["waiting"] <= number:
            time.sleep(0.001)
    go.set()
    for thread in [first, *clients]:
        thread.join()

    assert order == [1, 3, 0, 2]


@pytest.mark.parametrize(
    "arguments",
    [{"timeout": -1}, {"timeout": "1"}, {"timeout": float("nan")}, {"timeout": True}, {"cancel": object()},
     {"priority": 1.5}, {"priority": 0.0}, {"priority": False}, {"priority": X}, {"priority": 1 << 40}],
)  # fmt: skip
def test_impossible_arguments_are_refused(arguments):
    """
    The error names the argument and its value.
    """
    session = treadle.Session(small.add())
    inputs = {"a": np.zeros((2, 3), np.float32), "b": np.zeros((2, 3), np.float32)}
    with pytest.raises(InputError, match=next(iter(arguments))):
        session.run(inputs, **arguments)
    assert session.run(inputs)["y"].shape == (2, 3)


def test_any_nonnegative_number_of_seconds_is_a_timeout():
    """
    Also those beyond what a float can hold.
    """
    session = treadle.Session(small.add())
    inputs = {"a": np.zeros((2, 3), np.float32), "b": np.zeros((2, 3), np.float32)}
    for seconds in (10**400, 1e300, float("inf")):
        assert session.run(inputs, timeout=seconds)["y"].shape == (2, 3)


INTERRUPTED = """
import os, signal, sys, threading, time
sys.path.insert(0, os.getcwd())
import treadle
from tests.unit.runtime.slow_models import X, endless_loop, long_kernels, python_tasks
session, inputs = long_kernels(800)
threads = treadle.threads.get().intra_op
looping = endless_loop()
MANY, ended = 500, []
runs = {
    "kernels": lambda: session.run(inputs),
    "one thread": lambda: session.run(inputs, intra_op=1, inter_op=1),
    "nested": lambda: nested.run(X),
    "a loop": lambda: looping.run(X),
    "a loop on one thread": lambda: looping.run(X, intra_op=1, inter_op=1),
    "sleeping task": lambda: python_tasks([lambda: time.sleep(1000)]).run(X),
    "computing task": lambda: python_tasks([compute]).run(X),
    "short tasks": lambda: python_tasks([lambda: short(0.01)] * MANY, chained=True).run(X),
    "a sleeping task elsewhere": lambda: python_tasks([lambda: time.sleep(1000)], blocking=True).run(X),
    "a sleeping task in a worker": lambda: sleeps_elsewhere().run(X),
    "blocking tasks": lambda: python_tasks([lambda: short(0.01)] * MANY, blocking=True).run(X),
    "waiting for its turn": lambda: python_tasks([lambda: None], pool=taken).run(X),
    "future": lambda: session.run_async(inputs).result(),  # the last: its run goes on
}
def sleeps_elsewhere():
    inside = threading.Event()
    def task():
        if threading.current_thread() is threading.main_thread():
            inside.wait()
        else:
            inside.set()
            time.sleep(1000)
    return python_tasks([task] * 200, pool=treadle.Pool(intra_op=2, inter_op=2))
def compute():
    for _ in range(10**9): pass
def short(seconds):
    ended.append(None)
    time.sleep(seconds)
nested = python_tasks([lambda: session.run(inputs)] * 2)
taken, inside, go = treadle.Pool(intra_op=1, inter_op=1), threading.Event(), threading.Event()
holder = threading.Thread(target=python_tasks([lambda: (inside.set(), go.wait())], pool=taken).run, args=(X,))
holder.start()
inside.wait()

def used_to_end(run):
    sent = []
    def interrupt():
        time.sleep(0.15)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        for _ in range(100):  # where a run takes no 150 ms
            run()
    except KeyboardInterrupt:
        return time.process_time() - sent[0]
    finally:
        thread.join()
    raise SystemExit("was not interrupted")

for name, run in runs.items():
    ended.clear()
    is_soon = used_to_end(run) < threads * ENDS_WITHIN_S
    print(f"{name}: {is_soon and (not ended or len(ended) % MANY > 0)}", flush=True)
go.set()
holder.join()
small = python_tasks([lambda: None])
assert small.run(X)
os._exit(0)
"""


def test_ctrl_c_ends_runs():
    """
    Long kernels, on one thread or several, in a nested session or a future; the body of a loop; a Python task of the
    main thread's own or in another thread; between short tasks; a run that waits for its turn. What computes uses
    little CPU time after the interrupt, what sleeps does not end by itself.
    """
    program = INTERRUPTED.replace("ENDS_WITHIN_S", str(ENDS_WITHIN_S))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=False)
    lines = done.stdout.splitlines()

    assert len(lines) == 13, done.stdout + done.stderr
    assert all(line.endswith(": True") for line in lines), done.stdout


def test_signals_have_their_handlers_during_runs(long):
    """
    An exception from a signal handler ends the run.
    """
    session, inputs = long

    def handler(*_):
        raise ZeroDivisionError

    def run():
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        session.run(inputs, intra_op=1)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(ZeroDivisionError):
            run()
    finally:
        signal.signal(signal.SIGALRM, before)
