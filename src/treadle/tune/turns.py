"""Latencies of runs by one client, or by several at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns the time in ns."""


def turn(
    run: Callable[[], object], clients: int, seconds: float, least: int = 2, now: Clock = time.perf_counter_ns
) -> list[int]:
    """Let `clients` call `run` for `seconds`, at least `least` times each; return the latencies in ns.

    Each client's first run does not count if it has others: another CPU may have to wake up. One client is this thread,
    several are as latencies_of_clients() has them.
    """
    if clients == 1:
        found = [_runs(run, now() + int(seconds * 1e9), least, now, [])]
    else:
        found = latencies_of_clients(run, clients, seconds, least, now=now)
    return [latency for own in found for latency in own[1:] or own]


def latencies_of_clients(
    run: Callable[[], object],
    clients: int,
    seconds: float,
    least: int = 1,
    *,
    cancel: Callable[[], None] = lambda: None,
    now: Clock = time.perf_counter_ns,
) -> list[list[int]]:
    """Let `clients` threads call `run` for `seconds`, at least `least` times each; return the latencies of each in ns.

    If a run fails or this thread is interrupted, no client begins another run, and `cancel` is called, which should end
    those in progress. The exception is raised.
    """
    end = now() + int(seconds * 1e9)
    found: list[list[int]] = []
    failures: list[BaseException] = []

    def fail(error: BaseException) -> None:
        failures.append(error)
        cancel()

    def client() -> None:
        try:
            found.append(_runs(run, end, least, now, failures))
        except BaseException as error:  # noqa: BLE001 - the thread that called this function raises it
            fail(error)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        fail(error)
        raise
    if failures:
        raise failures[0]
    return found


def _runs(run: Callable[[], object], end: int, least: int, now: Clock, failures: list[BaseException]) -> list[int]:
    """Call `run` until `end`, at least `least` times, unless other clients have `failures`; return the latencies."""
    found: list[int] = []
    before = now()
    while not failures and (len(found) < least or before < end):
        run()
        after = now()
        found.append(after - before)
        before = after
    return found
