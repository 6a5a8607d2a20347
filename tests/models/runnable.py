"""Counts the runnable threads of another process through Linux's /proc."""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain
from pathlib import Path

SUPPORTED = Path("/proc/self/schedstat").is_file()

SECONDS = 2.5
"""The shortest and the longest time to sample; the longest counts if the threads never become runnable."""
LONGEST_SECONDS = 60
LOOKS, BETWEEN = 6, 0.004
"""A thread counts if it is runnable in each of several samples within 20 ms, far longer than a hand-over takes."""
WORKED_NS = 3_000_000
"""CPU time that the thread must also have had between the samples: a seventh of 20 ms.

Where other processes use the CPUs, a thread may wait long for the moment in which it takes its next inputs or parks. A
thread that computes gets its share of the CPUs.
"""
STRETCHED_SECONDS = 0.06
"""Samples that took longer are dropped, because one thread may have worked, then another in its place."""
REPEATED = 3
"""How often a number of threads must be sampled to count: the load repeats itself, so a real excess comes back."""


def runnable(*processes: int) -> dict[str, int]:
    """Returns the threads in state R, and the CPU time in ns that each has had."""
    found = {}
    for thread in chain.from_iterable(Path(f"/proc/{process}/task").iterdir() for process in processes):
        try:
            fields = (thread / "stat").read_text().rpartition(")")[2].split()
            worked = int((thread / "schedstat").read_text().split()[0])
        except OSError:  # the thread has just ended
            continue
        if fields[0] == "R":
            found[thread.name] = worked
    return found


def looks_at(*processes: int) -> list[dict[str, int]]:
    """Returns a few samples of the runnable threads in quick succession."""
    looks = []
    for _ in range(LOOKS):
        looks.append(runnable(*processes))
        time.sleep(BETWEEN)
    return looks


def steady(looks: list[dict[str, int]]) -> int:
    """Returns how many threads were runnable in every sample and had CPU time between them."""
    threads = set.intersection(*map(set, looks))
    return sum(looks[-1][thread] - looks[0][thread] > WORKED_NS for thread in threads)


def most_threads(wanted: int, *processes: int) -> tuple[int, int]:
    """
    Returns the most threads runnable in one sample, and the most that were runnable throughout several.

    Samples for some seconds, and longer until `wanted` threads were runnable at once. The first number includes threads
    that hand work over, so it shows that the load can use all of its slots.
    """
    start = time.monotonic()
    at_once, seen = 0, Counter[int]()
    while (now := time.monotonic() - start) < SECONDS or (at_once < wanted and now < LONGEST_SECONDS):
        looks = looks_at(*processes)
        at_once = max(at_once, *map(len, looks))
        if time.monotonic() - start - now < STRETCHED_SECONDS:
            seen[steady(looks)] += 1
    return at_once, max((number for number in seen if sum(seen[n] for n in seen if n >= number) >= REPEATED), default=0)


def run_times(process: int) -> dict[str, int]:
    """Returns the CPU time in ns that each thread has had so far."""
    found = {}
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            found[thread.name] = int((thread / "schedstat").read_text().split()[0])
        except OSError:  # the thread has just ended
            continue
    return found


def used_cpus(process: int, seconds: float) -> float:
    """Returns the CPU time that a process had, over the time that passed: how many CPUs it used on average.

    It is never too large: other processes take CPU time away, and threads that end in between do not count.
    """
    start = time.monotonic()
    before = run_times(process)
    time.sleep(seconds)
    after = run_times(process)
    passed = time.monotonic() - start
    return sum(used - before.get(thread, 0) for thread, used in after.items()) / (passed * 1e9)
