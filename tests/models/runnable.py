"""Threads that want a CPU, counted from outside through Linux's /proc."""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain
from pathlib import Path

SUPPORTED = Path("/proc/self/schedstat").is_file()

SECONDS = 2.5
"""How long is watched at least, and at most if the threads do not come."""
LONGEST_SECONDS = 60
LOOKS, BETWEEN = 6, 0.004
"""A thread counts as runnable if it is so at each of several looks over 20 ms, far longer than changing hands takes."""
WORKED_NS = 3_000_000
"""And if it worked a seventh of that time: where other processes want the CPUs too, a thread may wait long for the
moments of CPU that it needs to take its next inputs or to go to sleep. One that computes gets its share of the CPUs."""
STRETCHED_SECONDS = 0.06
"""Looks that took longer count for nothing: meanwhile one thread may have worked, and then another in its place."""
REPEATED = 3
"""So often a number of threads must be seen: a load that repeats itself does more than once what it should not."""


def runnable(*processes: int) -> dict[str, int]:
    """The threads in state R, and the CPU time in ns that each has had."""
    found = {}
    for thread in chain.from_iterable(Path(f"/proc/{process}/task").iterdir() for process in processes):
        try:
            fields = (thread / "stat").read_text().rpartition(")")[2].split()
            worked = int((thread / "schedstat").read_text().split()[0])
        except OSError:  # it has just ended
            continue
        if fields[0] == "R":
            found[thread.name] = worked
    return found


def looks_at(*processes: int) -> list[dict[str, int]]:
    """Some looks at the runnable threads, each shortly after the last."""
    looks = []
    for _ in range(LOOKS):
        looks.append(runnable(*processes))
        time.sleep(BETWEEN)
    return looks


def steady(looks: list[dict[str, int]]) -> int:
    """How many threads were runnable at every look, and worked meanwhile."""
    threads = set.intersection(*map(set, looks))
    return sum(looks[-1][thread] - looks[0][thread] > WORKED_NS for thread in threads)


def most_threads(wanted: int, *processes: int) -> tuple[int, int]:
    """
    The most threads that were runnable at one look, and the most that were steadily so, while the load is on: for some
    seconds, and on until `wanted` were runnable at once. The first number counts threads that change hands too, so it
    is the one that shows that the load wants all it was given.
    """
    start = time.monotonic()
    at_once, seen = 0, Counter[int]()
    while (now := time.monotonic() - start) < SECONDS or (at_once < wanted and now < LONGEST_SECONDS):
        looks = looks_at(*processes)
        at_once = max(at_once, *map(len, looks))
        if time.monotonic() - start - now < STRETCHED_SECONDS:
            seen[steady(looks)] += 1
    return at_once, max((number for number in seen if sum(seen[n] for n in seen if n >= number) >= REPEATED), default=0)
