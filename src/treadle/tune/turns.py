"""Latencies of a turn of runs, by one client or by several at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def turn(run: Callable[[], object], clients: int, seconds: float, least: int = 2) -> list[int]:
    """Let `clients` threads call `run` for `seconds`, at least `least` times each; return the latencies in ns.

    Each client's first run does not count if it has others: another CPU may have to wake up. If a run fails, its
    exception is raised when all clients have ended.
    """
    end = time.perf_counter_ns() + int(seconds * 1e9)
    found: list[list[int]] = [[] for _ in range(clients)]
    failures: list[BaseException] = []

    def client(own: list[int]) -> None:
        try:
            before = time.perf_counter_ns()
            while len(own) < least or before < end:
                run()
                after = time.perf_counter_ns()
                own.append(after - before)
                before = after
                if failures:
                    return
        except BaseException as error:  # noqa: BLE001 - the thread that called turn() raises it
            failures.append(error)

    if clients == 1:
        client(found[0])
    else:
        threads = [threading.Thread(target=client, args=(own,)) for own in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return [latency for own in found for latency in own[1:] or own]
