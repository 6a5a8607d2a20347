"""The events of a typical run: single runs vary on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import itemgetter

from treadle.tracing.record import Event, record


def typical(run: Callable[[], object], runs: int) -> list[Event]:
    """Return the events of the call of median duration out of `runs` calls of `run`."""
    traced: list[tuple[int, list[Event]]] = []
    for _ in range(runs):
        with record() as recording:
            before = time.perf_counter_ns()
            run()
            duration_ns = time.perf_counter_ns() - before
        traced.append((duration_ns, recording.events))
    return sorted(traced, key=itemgetter(0))[(runs - 1) // 2][1]
