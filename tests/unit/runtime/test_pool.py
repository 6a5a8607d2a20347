"""Pools: names, limits, lives."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks

import treadle
from treadle.errors import ThreadSettingError


def wait_until(condition):
    """Waits until the condition holds: a joined thread is listed for a moment longer."""
    while not condition():
        time.sleep(0.001)


def names_of_threads():
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            continue
    return names


def test_a_pool_has_a_team_of_its_own():
    """
    Sessions and single runs use the pool that they are given, and results are the same on every pool.
    """
    model = small.branches()
    inputs = small.inputs_for(model)
    pool, other = treadle.Pool(intra_op=2, inter_op=2), treadle.Pool(intra_op=1, inter_op=1)
    seen = []
    session = python_tasks([lambda: seen.append(threading.get_ident())] * 3, pool=pool)
    with treadle.threads.limit(intra_op=1):
        session.run(X)
        results = {treadle.Session(model, pool=pool).run(inputs)["y"].tobytes(),
                   treadle.Session(model).run(inputs)["y"].tobytes(),
                   treadle.Session(model).run(inputs, pool=other)["y"].tobytes()}  # fmt: skip

    assert len(seen) == 3
    assert len(results) == 1
    assert pool.get().intra_op == 2


def test_the_same_name_is_the_same_pool_while_it_lives():
    """
    Other limits are refused; after its end the name is free again.
    """
    pool = treadle.Pool("shared", intra_op=3)
    assert treadle.Pool("shared") is pool
    assert treadle.Pool("shared", intra_op=3) is pool
    with pytest.raises(ThreadSettingError, match=r"intra_op from Pool\('shared', intra_op=\): the pool already has 3"):
        treadle.Pool("shared", intra_op=2)
    pool.set(intra_op=2)
    assert treadle.Pool("shared", intra_op=2) is pool
    del pool
    gc.collect()

    assert treadle.Pool("shared", intra_op=4).get().intra_op == 4


def test_threads_end_with_the_pool():
    """
    When the last reference to a pool is dropped, its threads end.
    """
    before = len(names_of_threads())
    both = threading.Barrier(2)
    for _ in range(20):
        pool = treadle.Pool("brief", intra_op=4, inter_op=4)
        session = python_tasks([lambda: both.wait(60)] * 24, pool=pool)
        session.run(X)
        assert any(name.startswith("treadle-brief") for name in names_of_threads())
        del pool
        assert any(name.startswith("treadle-brief") for name in names_of_threads())  # the session holds it
        del session
        gc.collect()
        wait_until(lambda: not any(name.startswith("treadle-brief") for name in names_of_threads()))

    wait_until(lambda: len(names_of_threads()) <= before)


def test_a_pool_ends_with_the_last_session_on_it_at_once():
    """
    Not only when Python looks for cycles: sessions hold none.
    """
    model = small.branches()
    inputs = small.inputs_for(model)
    gc.collect()
    gc.disable()
    try:
        pool = treadle.Pool("last", intra_op=2)
        session = treadle.Session(model, pool=pool)
        session.run(inputs)
        held, ended = weakref.ref(pool), weakref.ref(session)
        del pool
        assert held() is not None
        del session
        assert ended() is None
        assert held() is None
    finally:
        gc.enable()


def test_a_pool_may_be_dropped_while_others_run():
    """
    Dropping a pool does not wait for runs on other pools.
    """
    stop = threading.Event()
    session = python_tasks([lambda: time.sleep(0.001)] * 4, pool=treadle.Pool(intra_op=2, inter_op=2))

    def client():
        while not stop.is_set():
            session.run(X)

    thread = threading.Thread(target=client)
    thread.start()
    for _ in range(30):
        python_tasks([lambda: None] * 4, pool=treadle.Pool(intra_op=3, inter_op=3)).run(X)
    stop.set()
    thread.join()


@pytest.mark.parametrize("name", ["", "main", "a\nb", 3])
def test_impossible_names_are_refused(name):
    """
    `main` is the process's own.
    """
    with pytest.raises(ThreadSettingError, match=r"name from Pool\(name=\)"):
        treadle.Pool(name)


def test_impossible_limits_and_pools_are_refused():
    """
    At the moment they are set.
    """
    with pytest.raises(ThreadSettingError, match=r"inter_op from Pool\(inter_op=\)"):
        treadle.Pool(inter_op=-1)
    with pytest.raises(ThreadSettingError, match=r"pool from Session\(pool=\)"):
        treadle.Session(small.add(), pool="fast")
    session = treadle.Session(small.add())
    zeros = np.zeros((2, 3), np.float32)
    with pytest.raises(ThreadSettingError, match=r"pool from run\(pool=\)"):
        session.run({"a": zeros, "b": zeros}, pool=2)


def test_pools_survive_fork():
    """
    The child gets threads of its own.
    """
    pool = treadle.Pool(intra_op=3, inter_op=3)
    session = python_tasks([lambda: time.sleep(0.001)] * 6, pool=pool)
    session.run(X)
    child = os.fork()
    if child == 0:
        good = session.run(X) is not None and treadle.Pool("child", intra_op=1) is not None
        os._exit(0 if good else 1)

    assert os.waitpid(child, 0)[1] == 0
