"""Runs that are in progress at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import treadle


def assert_same_bits_at_once(session: treadle.Session, given: Sequence[Mapping[str, Any]], pool: treadle.Pool) -> None:
    """Assert that a thread for each of `given`, which runs it 10 times on `pool`, gets the bits of a run alone."""
    wanted = [[result.tobytes() for result in session.run(each).values()] for each in given]
    faults: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            results = session.run(given[number], pool=pool)
            if [result.tobytes() for result in results.values()] != wanted[number]:
                faults.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not faults


def wait_for_a_run(pool: treadle.Pool) -> None:
    """Return once a run has a slot of `pool`."""
    while pool.threads.status()["slots"] == 0:
        time.sleep(0.001)
