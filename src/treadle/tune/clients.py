"""Measures the throughput of several clients that run one model at the same time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from treadle.runtime.control import CancelToken
from treadle.tune.turns import Clock, latencies_of_clients


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
    now: Clock = time.perf_counter_ns,
) -> Throughput:
    """Lets `clients` call `run` for `seconds`, at least once each, and returns their throughput.

    If this thread is interrupted or a run fails, all runs are cancelled, and the exception is raised.
    """
    token = CancelToken()
    start = now()
    found = latencies_of_clients(lambda: run(token), clients, seconds, cancel=token.cancel, now=now)
    elapsed = now() - start
    runs = [latency for own in found for latency in own]
    return Throughput(clients, 1e9 * len(runs) / max(elapsed, 1), statistics.median(runs))
