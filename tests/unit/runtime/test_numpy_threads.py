"""Python tasks that compute with NumPy use one thread, that of their slot."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from tests.models import small
from tests.unit.runtime.slow_models import X, python_tasks

import treadle
from treadle.errors import RunError
from treadle.runtime import numpy_threads

NUMBER = numpy_threads._number()

pytestmark = pytest.mark.skipif(NUMBER is None or NUMBER[0]() == 0, reason="NumPy uses no OpenBLAS here")


@pytest.fixture(autouse=True)
def three_blas_threads():
    get, set_ = NUMBER
    before = get()
    set_(3)
    yield
    assert get() == 3, "what was set before has not come back"
    set_(before)


def threads_of_blas():
    return NUMBER[0]()


def test_a_python_task_has_numpy_on_one_thread():
    """
    Nested ones too, and after them NumPy has its threads again.
    """
    seen = []
    inner = python_tasks([lambda: seen.append(threads_of_blas())] * 3)
    python_tasks([lambda: inner.run(X), lambda: seen.append(threads_of_blas())]).run(X)

    assert seen == [1] * 4
    assert threads_of_blas() == 3


def test_blocking_tasks_are_left_alone():
    """
    Blocking tasks hold no slot, so their library threads are not limited.
    """
    seen = []
    python_tasks([lambda: seen.append(threads_of_blas())], blocking=True).run(X)

    assert seen == [3]


def test_it_comes_back_after_a_failure_and_when_tasks_overlap():
    """
    The last task out sets it back.
    """

    def fail():
        raise ValueError("mine")

    with pytest.raises(RunError):
        python_tasks([fail]).run(X)
    assert threads_of_blas() == 3
    go, seen = threading.Event(), []
    slow = python_tasks([lambda: (go.wait(20), seen.append(threads_of_blas()))], pool=treadle.Pool(intra_op=1))
    client = threading.Thread(target=slow.run, args=(X,))
    client.start()
    for _ in range(20):
        python_tasks([lambda: seen.append(threads_of_blas())], pool=treadle.Pool(intra_op=1)).run(X)
    go.set()
    client.join()

    assert set(seen) == {1}


def test_ops_that_run_by_numpy_do_not_exceed_a_budget_of_one():
    """
    An einsum that no kernel computes, also where shapes depend on data: no more CPU time than time passes.
    """
    w = small.ModelWriter()
    w.op("Einsum", "x", "x", equation="...ij,...jk->...ik")
    w.nodes[-1].output[0] = "y"
    session = treadle.Session(w.model({"x": (small.FLOAT, [2, 512, 512])}, {"y": (small.FLOAT, [2, 512, 512])}))
    inputs = {"x": np.ones((2, 512, 512), np.float32)}
    session.run(inputs)

    def busy_cpus():
        cpu, wall = time.process_time(), time.monotonic()
        while time.monotonic() < wall + 0.3:
            session.run(inputs, intra_op=1, inter_op=1)
        return (time.process_time() - cpu) / (time.monotonic() - wall)

    assert min(busy_cpus() for _ in range(3)) < 1.2


def test_a_child_forked_beside_a_task_has_numpys_threads_again():
    """
    The task's thread does not exist there.
    """
    inside, go = threading.Event(), threading.Event()
    session = python_tasks([lambda: (inside.set(), go.wait(20))], pool=treadle.Pool(intra_op=1))
    client = threading.Thread(target=session.run, args=(X,))
    client.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if threads_of_blas() == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    client.join()
    child = []

    def fork():
        child.append(os.fork())
        if child[0] == 0:
            os._exit(0 if threads_of_blas() == 1 else 1)
        child[0] = os.waitpid(child[0], 0)[1]

    python_tasks([fork]).run(X)
    assert child == [0]
