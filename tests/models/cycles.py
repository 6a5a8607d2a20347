"""Makes, runs and drops sessions while other sessions run: `python -m tests.models.cycles COUNT`.

Prints the threads and the memory before and after, and ends with an error if they did not return to what they were.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import treadle
from tests.models import small

WARM_UP = 50
MOST_WORKERS = 4
"""Workers of the team at the limits of these sessions; they may start only after the warm-up."""
SLACK_MIB = 8
"""Memory may grow by this much, because allocators keep some of it."""


@dataclass(frozen=True)
class State:
    """Threads of the process, and its resident memory in MiB."""

    threads: int
    mib: float


def state() -> State:
    """Returns the state now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return State(len(list(Path("/proc/self/task").iterdir())), pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def cycle(count: int) -> tuple[State, State]:
    """Returns the states before and after `count` cycles; checks every result."""
    model = small.add(shape=(64, 64))
    array = np.ones((64, 64), np.float32)
    busy, feeds = treadle.Session(small.branches(width=128)), small.inputs_for(small.branches(width=128))
    wanted = busy.run(feeds)["y"].tobytes()
    end = threading.Event()
    faults: list[str] = []

    def others() -> None:
        while not end.is_set():
            if busy.run(feeds)["y"].tobytes() != wanted:
                faults.append("another session's result changed")

    def one(number: int) -> None:
        session = treadle.Session(model, intra_op=1 + number % 4, inter_op=1 + number % 3)
        if session.run({"a": array, "b": array})["y"][0, 0] != 2:
            faults.append(f"cycle {number}: wrong result")

    clients = [threading.Thread(target=others) for _ in range(2)]
    for client in clients:
        client.start()
    for number in range(WARM_UP):
        one(number)
    before = state()
    for number in range(count):
        one(number)
    after = state()
    end.set()
    for client in clients:
        client.join()
    assert not faults, faults[:3]
    return before, after


def main(count: int) -> None:
    """Runs the cycles and compares the states."""
    before, after = cycle(count)
    sys.stdout.write(f"{count} sessions: {before} -> {after}\n")
    assert after.threads <= before.threads + MOST_WORKERS, "threads were left behind"
    assert after.mib <= before.mib + SLACK_MIB, "memory was left behind"


if __name__ == "__main__":
    main(int(sys.argv[1]))
