"""One team: the threads that want a CPU, counted from outside through /proc, never exceed what was asked for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

SECONDS = 3
LOOKS, BETWEEN = 6, 0.004
"""A thread counts as runnable if it is so at each of several looks over 20 ms, far longer than changing hands takes."""
WORKED_NS = 3_000_000
"""And if it worked a seventh of that time: where other processes want the CPUs too, a thread may wait long for the
moments of CPU that it needs to take its next inputs or to go to sleep. One that computes gets its share of the CPUs."""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").is_file(), reason="threads are counted through Linux's /proc"
)


@contextmanager
def busy(intra_op: int, inter_op: int, own_teams: int) -> Iterator[int]:
    """The id of a process under load: sessions, clients, nested runs, Python, NumPy and blocking tasks."""
    command = [sys.executable, "-m", "tests.models.busy", *map(str, (intra_op, inter_op, own_teams, SECONDS))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            assert process.wait(60) == 0


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


def most_threads(process: int) -> tuple[int, int]:
    """
    The most threads that were runnable at one look, and the most that were steadily so, while the load is on. The
    first counts threads that change hands too, so it is the one that shows that the load wants all it was given.
    """
    end = time.monotonic() + SECONDS - 0.5
    at_once = steadily = 0
    while time.monotonic() < end:
        looks = looks_at(process)
        at_once = max(at_once, *map(len, looks))
        steadily = max(steadily, steady(looks))
    return at_once, steadily


@pytest.mark.parametrize(("intra_op", "inter_op"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])
def test_runnable_threads_never_exceed_the_budget(intra_op: int, inter_op: int) -> None:
    """
    Five clients: two plain sessions, nested and background runs, Python, NumPy and blocking tasks, shapes that depend
    on data: no more run than max(intra_op, inter_op).
    """
    with busy(intra_op, inter_op, own_teams=0) as process:
        at_once, steadily = most_threads(process)

    assert steadily <= max(intra_op, inter_op) <= at_once


def test_a_team_of_ones_own_adds_its_own_places() -> None:
    """
    Two teams of two places keep four threads busy: each has what it was given (and the count can see it).
    """
    with busy(2, 2, own_teams=1) as process:
        at_once, steadily = most_threads(process)

    assert 2 < steadily <= 4 <= at_once
