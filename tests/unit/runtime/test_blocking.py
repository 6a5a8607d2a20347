"""Blocking tasks, nested runs and small pools do not deadlock."""

from __future__ import annotations

import itertools
import threading
import time

import pytest
from tests.unit.runtime.slow_models import X, python_tasks

from treadle import Pool, _native

KINDS = ("plain", "blocking", "nested", "nested blocking")
EDGES = [(i, j) for j in range(3) for i in range(j)]


def step(function):
    return (function, [], [], 1, 20_000.0)


def build(functions, edges, blocking):
    successors = [[j for i, j in edges if i == task] for task in range(len(functions))]
    tasks = [(i, 1, float(-i), blocks) for i, blocks in enumerate(blocking)]
    return _native.Program([step(function) for function in functions], tasks, successors, [], 0, 0)


@pytest.mark.parametrize("limits", [(1, 1), (1, 2), (2, 2)])
def test_every_small_graph_of_tasks_ends(limits):
    """
    All 8 graphs of three tasks, each plain, blocking, calling a program of a plain and a blocking task, or both: every
    task runs once, after those it waits for, whatever the number of threads.
    """
    team = _native.Team("small", *limits)
    inner_done = []
    inner = build([lambda _: inner_done.append(0)] * 2, [(0, 1)], [False, True])
    for chosen in itertools.product([False, True], repeat=len(EDGES)):
        edges = [edge for edge, is_there in zip(EDGES, chosen, strict=True) if is_there]
        for kinds in itertools.product(KINDS, repeat=3):
            done = []

            def run(number, kind, done=done):
                if kind.startswith("nested"):
                    inner.run(team, [])
                done.append(number)

            functions = [lambda _, n=n, kind=kind: run(n, kind) for n, kind in enumerate(kinds)]
            inner_done.clear()
            build(functions, edges, [kind.endswith("blocking") for kind in kinds]).run(team, [])

            assert sorted(done) == [0, 1, 2], (edges, kinds)
            assert all(done.index(i) < done.index(j) for i, j in edges), (edges, kinds)
            assert len(inner_done) == 2 * sum(kind.startswith("nested") for kind in kinds)
    team.close()


@pytest.mark.parametrize("depth", [1, 5, 30])
def test_nesting_of_any_depth_needs_one_thread(depth):
    """
    A session that runs a session that runs a session, on a pool of one slot.
    """
    pool = Pool(intra_op=1, inter_op=1)
    seen = []
    session = python_tasks([lambda: seen.append(threading.get_ident())] * 2, pool=pool)
    for _ in range(depth):
        session = python_tasks([lambda inner=session: inner.run(X)], pool=pool)
    session.run(X)

    assert set(seen) == {threading.get_ident()}
    assert pool.threads.status()["workers"] == 0


def test_pools_that_call_each_other_cannot_deadlock():
    """
    Many threads run sessions of one pool that run sessions of another pool, and vice versa; each pool has one slot.
    """
    one, two = Pool(intra_op=1, inter_op=1), Pool(intra_op=1, inter_op=1)
    inner = [python_tasks([lambda: None] * 2, pool=pool) for pool in (two, one)]
    outer = [
        python_tasks([lambda other=other: other.run(X)] * 2, pool=pool)
        for pool, other in zip((one, two), inner, strict=True)
    ]

    def client(session):
        for _ in range(60):
            session.run(X)

    clients = [threading.Thread(target=client, args=(outer[number % 2],)) for number in range(6)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(60)

    assert not any(thread.is_alive() for thread in clients)


def test_a_waiting_task_executes_other_tasks():
    """
    While a task waits for the session it runs, its thread executes tasks of that run, and other workers help.
    """
    pool = Pool(intra_op=3, inter_op=3)
    seen, meet = [], threading.Barrier(3)

    def look():
        seen.append(threading.get_ident())
        meet.wait(60)

    inner = python_tasks([look] * 24, pool=pool)
    waited = []
    outer = python_tasks([lambda: (waited.append(threading.get_ident()), inner.run(X))], pool=pool)
    outer.run(X)

    assert len(seen) == 24
    assert waited[0] in seen
    assert len(set(seen)) == 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", ["task", "task in the background", "two pools"])
def test_a_task_may_wait_for_runs_in_the_background(where):
    """
    On pools of one place: begun or not, the run gets the place of the task that waits for it; afterwards there are no
    more places than before.
    """
    pool = Pool(intra_op=1, inter_op=1)
    other = Pool(intra_op=1, inter_op=1) if where == "two pools" else pool
    leaf = python_tasks([lambda: None] * 3, pool=pool)

    def wait_for_several():
        futures = [leaf.run_async(X) for _ in range(3)]
        time.sleep(0.01)  # the first has begun by now, and waits for the place
        assert all(future.result()["task0"].tolist() for future in futures)
        assert leaf.run_async(X).exception() is None
        assert leaf.run_async(X).result(30)

    middle = python_tasks([wait_for_several, wait_for_several], pool=other)
    outer = python_tasks([lambda: middle.run_async(X).result()] * 2, pool=pool)

    def client():
        for _ in range(5):
            if where == "task in the background":
                outer.run_async(X).result()
            else:
                outer.run(X)

    clients = [threading.Thread(target=client) for _ in range(3)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(50)

    assert not any(thread.is_alive() for thread in clients)
    assert pool.threads.team().limits == (1, 1)


@pytest.mark.timeout(60)
def test_limits_may_fall_while_a_task_waits_for_a_run_on_another_thread():
    """
    The helper waits for a run in the background. Both slots are held by waiting tasks.
    """
    pool = Pool(intra_op=2, inter_op=2)
    caller, helped, waited = threading.get_ident(), threading.Event(), []
    leaf = python_tasks([lambda: None], pool=pool)

    def meet():
        if threading.get_ident() == caller:
            assert helped.wait(30)
        elif not helped.is_set():
            helped.set()
            future = leaf.run_async(X)
            pool.set(intra_op=1, inter_op=1)
            while pool.threads.status()["runs"] < 3:
                time.sleep(0.001)
            waited.append(future.result(20)["task0"].tolist())

    inner = python_tasks([meet] * 24, pool=pool)
    python_tasks([lambda: inner.run(X)], pool=pool).run(X)

    assert waited == [[1.0]]


def test_blocking_tasks_hold_no_slot():
    """
    Up to inter_op blocking tasks wait at once while the only slot computes.
    """
    pool = Pool(intra_op=1, inter_op=2)
    release, inside = threading.Event(), threading.Semaphore(0)

    def block():
        inside.release()
        assert release.wait(30)

    blocked = python_tasks([block] * 4, blocking=True, pool=pool)
    client = threading.Thread(target=blocked.run, args=(X,))
    client.start()
    assert inside.acquire(timeout=10)
    assert inside.acquire(timeout=10)
    assert not inside.acquire(timeout=0.05)
    assert pool.threads.status()["blocking"] == 2
    for _ in range(5):
        python_tasks([lambda: None], pool=pool).run(X, inter_op=1)
    release.set()
    client.join(30)

    assert not client.is_alive()
