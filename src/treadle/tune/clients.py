"""Measures the throughput of several clients that run one model at the same time."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from treadle.errors import RunCancelledError
from treadle.runtime.control import CancelToken


@dataclass(frozen=True, slots=True)
class Throughput:
    """Runs per second of all `clients` together, and the median latency of their runs in ns."""

    clients: int
    runs_per_second: float
    median_ns: float


def throughput(
    run: Callable[[CancelToken], object],
    clients: int,
    seconds: float,
    now: Callable[[], int] = time.perf_counter_ns,
) -> Throughput:
    """Lets `clients` threads call `run` for `seconds`, at least once each, and returns their throughput.

    If this thread is interrupted or a run fails, all runs are cancelled, and the run's exception is raised.
    """
    token, latencies, failures = CancelToken(), [list[int]() for _ in range(clients)], list[BaseException]()
    start = now()
    end = start + int(seconds * 1e9)

    def client(own_latencies: list[int]) -> None:
        try:
            before = now()
            while not own_latencies or before < end:
                run(token)
                after = now()
                own_latencies.append(after - before)
                before = after
        except RunCancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - the thread that called throughput() raises it
            failures.append(error)
            token.cancel()

    threads = [threading.Thread(target=client, args=(own_latencies,)) for own_latencies in latencies]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        token.cancel()
        raise
    if failures:
        raise failures[0]
    elapsed = now() - start
    runs = [latency for own_latencies in latencies for latency in own_latencies]
    return Throughput(clients, 1e9 * len(runs) / max(elapsed, 1), statistics.median(runs))
