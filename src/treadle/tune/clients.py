"""What several clients get done who run a model at the same time."""

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
    """Runs per second of all `clients` together, and the median latency in ns that each of them sees."""

    clients: int
    runs_per_second: float
    median_ns: float


def throughput(
    run: Callable[[CancelToken], object],
    clients: int,
    seconds: float,
    now: Callable[[], int] = time.perf_counter_ns,
) -> Throughput:
    """Let `clients` threads call `run` for `seconds`, at least once each.

    Runs are cancelled if this thread is interrupted or one of them fails; what it raised is raised here.
    """
    token, latencies, failures = CancelToken(), [list[int]() for _ in range(clients)], list[BaseException]()
    start = now()
    end = start + int(seconds * 1e9)

    def client(mine: list[int]) -> None:
        try:
            before = now()
            while not mine or before < end:
                run(token)
                after = now()
                mine.append(after - before)
                before = after
        except RunCancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            failures.append(error)
            token.cancel()

    threads = [threading.Thread(target=client, args=(mine,)) for mine in latencies]
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
    took = now() - start
    runs = [latency for mine in latencies for latency in mine]
    return Throughput(clients, 1e9 * len(runs) / max(took, 1), statistics.median(runs))
