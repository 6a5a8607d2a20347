"""Runs in the background."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest
from tests.models import small
from tests.unit.runtime.slow_models import X, endless_loop, long_kernels, python_tasks

import treadle
from treadle.errors import InputError, RunCancelledError, RunError, RunTimeoutError, ThreadLimitError
from treadle.runtime.control import DEFAULT
from treadle.runtime.futures import Background, RunFuture


@pytest.fixture(scope="module")
def long():
    return long_kernels()


def test_a_future_returns_what_run_returns():
    """
    It is a concurrent.futures.Future; many may be under way.
    """
    model = small.convolutional()
    session = treadle.Session(model)
    feeds = [small.inputs_for(model, seed=seed) for seed in range(12)]
    futures = [session.run_async(feed) for feed in feeds]

    assert all(isinstance(future, concurrent.futures.Future) for future in futures)
    for feed, future in zip(feeds, futures, strict=True):
        assert np.array_equal(future.result(60)["y"], session.run(feed)["y"])


def test_futures_can_be_awaited():
    """
    `await session.run_async(...)` and asyncio.gather do not block the event loop.
    """
    model = small.branches()
    session, inputs = treadle.Session(model), small.inputs_for(model)

    async def main():
        one = await session.run_async(inputs)
        many = await asyncio.gather(*(asyncio.wrap_future(session.run_async(inputs)) for _ in range(5)))
        return [one, *many]

    wanted = session.run(inputs)["y"]
    assert all(np.array_equal(outputs["y"], wanted) for outputs in asyncio.run(main()))


def test_arguments_are_checked_at_once():
    """
    run_async raises the same errors as run, before it returns a future.
    """
    session = treadle.Session(small.add())
    with pytest.raises(InputError):
        session.run_async({"a": 1})


def test_a_future_raises_the_error_of_its_run():
    """
    A task's exception comes out of result().
    """

    def fail():
        raise ValueError("mine")

    with pytest.raises(RunError, match="mine"):
        python_tasks([fail]).run_async(X).result(20)


def test_cancelling_a_future_ends_its_run(long):
    """
    In progress the run ends with RunCancelledError; before its turn the future is cancelled as any other.
    """
    session, inputs = long
    pool = treadle.Pool(intra_op=1, inter_op=1)
    running = session.run_async(inputs, pool=pool)
    while not pool.threads.status()["runs"]:
        time.sleep(0.001)
    waiting = session.run_async(inputs, pool=pool)
    assert waiting.cancel()
    assert running.cancel()

    with pytest.raises(RunCancelledError):
        running.result(60)
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(60)
    assert not running.cancel()


def test_cancelling_the_task_that_awaits_cancels_the_run():
    """
    asyncio.timeout works as one hopes.
    """
    session = endless_loop()
    pool = treadle.Pool(intra_op=1, inter_op=1)

    async def main():
        async with asyncio.timeout(0.1):
            await session.run_async(X, pool=pool)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    while pool.threads.status()["runs"]:
        time.sleep(0.001)


def test_timeouts_count_while_a_run_waits_in_the_queue():
    """
    A deadline also ends a run that has not begun.
    """
    session = endless_loop()
    pool = treadle.Pool(intra_op=1, inter_op=1)
    token = treadle.CancelToken()
    first = session.run_async(X, pool=pool, cancel=token)
    with pytest.raises(RunTimeoutError):
        session.run_async(X, pool=pool, timeout=0.1).result(60)

    assert not first.done()
    token.cancel()
    with pytest.raises(RunCancelledError):
        first.result(60)


def no_thread(thread):
    """Fails to start a thread, as under the thread limit of the system or of a container."""
    raise RuntimeError("can't start new thread")


def test_a_run_without_a_thread_is_refused_and_not_queued(monkeypatch):
    """
    The error names the remedy; the run is not executed later.
    """
    done, background = [], Background("lonely", nullcontext)
    refused, wanted = (RunFuture(None, background, None, None) for _ in range(2))

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(ThreadLimitError, match=r"treadle-lonely-async.*can't start new thread.*or call run") as caught:
        background.submit(refused, DEFAULT, lambda: done.append("refused"), 1)
    monkeypatch.undo()
    background.submit(wanted, DEFAULT, lambda: done.append("wanted"), 1)

    wanted.result(60)
    assert done == ["wanted"]
    assert isinstance(caught.value, RuntimeError)


def test_a_run_without_a_thread_waits_for_the_serving_threads(monkeypatch):
    """
    If a background thread exists already, the run needs no second one.
    """
    go, background = threading.Event(), Background("lonely", nullcontext)
    first, second = (RunFuture(None, background, None, None) for _ in range(2))
    background.submit(first, DEFAULT, lambda: go.wait(60), 2)
    monkeypatch.setattr(threading.Thread, "start", no_thread)

    background.submit(second, DEFAULT, lambda: "done", 2)
    go.set()

    assert second.result(60) == "done"


def test_idle_background_threads_end():
    """
    At most as many background threads as the pool has slots are started, and all of them end.
    """
    pool, go = treadle.Pool("served", intra_op=2, inter_op=1), threading.Event()
    session = python_tasks([lambda: go.wait(60)], pool=pool)

    def serving():
        return sum("treadle-served" in thread.name for thread in threading.enumerate())

    futures = [session.run_async(X) for _ in range(10)]
    assert serving() == 2
    go.set()
    for future in futures:
        future.result(60)
    while serving():
        time.sleep(0.001)
