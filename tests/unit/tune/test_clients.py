"""The throughput of several clients."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from treadle import CancelToken
from treadle.errors import RunCancelledError
from treadle.tune.clients import throughput


def test_every_client_runs_at_the_same_time_as_the_others() -> None:
    """
    Each runs at least once, however short the time is.
    """
    together = threading.Barrier(3, timeout=60)

    done = throughput(lambda _: together.wait(), 3, 0.0)

    assert done.clients == 3
    assert done.runs_per_second > 0


def test_runs_are_counted_until_the_time_is_over() -> None:
    """
    The test's clock advances at each reading.
    """
    ticks = iter(range(0, 10**12, 10**8))

    done = throughput(lambda _: None, 1, 1.0, lambda: next(ticks))

    assert done.median_ns == 10**8
    assert done.runs_per_second == pytest.approx(10, rel=0.3)


def test_an_exception_of_a_run_ends_all_clients() -> None:
    """
    throughput() raises it.
    """

    def run(token: CancelToken) -> None:
        if threading.current_thread() is first[0]:
            raise ValueError("no")
        while not token.cancelled:
            time.sleep(0.001)
        raise RunCancelledError

    first: list[threading.Thread] = []

    def first_fails(token: CancelToken) -> None:
        first.append(threading.current_thread())
        run(token)

    with pytest.raises(ValueError, match="no"):
        throughput(first_fails, 2, 60.0)


def test_an_interruption_cancels_the_runs() -> None:
    """
    Clients run in other threads, which get no signal.
    """
    ended = threading.Semaphore(0)

    def run(token: CancelToken) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        while not token.cancelled:
            time.sleep(0.001)
        ended.release()
        raise RunCancelledError

    with pytest.raises(KeyboardInterrupt):
        throughput(run, 1, 60.0)

    assert ended.acquire(timeout=60)
