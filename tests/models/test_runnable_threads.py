"""The runnable threads of a process, counted through /proc, never exceed max(intra_op, inter_op)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.models.runnable import SUPPORTED, most_threads, used_cpus

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="threads are counted through Linux's /proc")


@pytest.fixture(scope="module")
def busy() -> Iterator[Callable[[int, int, int], int]]:
    """Puts a load on one process: sessions, clients, nested runs, Python, NumPy and blocking tasks. Returns its id."""
    command = [sys.executable, "-m", "tests.models.busy"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def load(intra_op: int, inter_op: int, own_teams: int) -> int:
            print(intra_op, inter_op, own_teams, file=stdin, flush=True)
            assert stdout.readline() == "ready\n"
            return process.pid

        yield load
        stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize(("intra_op", "inter_op"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])
def test_runnable_threads_never_exceed_the_budget(
    intra_op: int, inter_op: int, busy: Callable[[int, int, int], int]
) -> None:
    """
    No load makes more than max(intra_op, inter_op) threads runnable.

    Five clients run two plain sessions, nested and background runs, Python, NumPy and blocking tasks, and shapes that
    depend on data.
    """
    budget = max(intra_op, inter_op)
    at_once, steadily = most_threads(budget, busy(intra_op, inter_op, 0))

    assert steadily <= budget <= at_once


OWN_PYTHON = 0.15
"""CPUs that the five clients may use for their own Python, between two runs of tens of ms, and threads to hand over."""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a single CPU is never exceeded")
def test_a_process_uses_no_more_cpus_than_its_budget(busy: Callable[[int, int, int], int]) -> None:
    """
    The system's own count of CPU time says so, which misses no moment. One more than the budget's thread would show.
    """
    budget = 1
    assert used_cpus(busy(budget, budget, 0), 5) <= budget + OWN_PYTHON
    assert used_cpus(busy(budget, budget, 1), 5) <= 2 * budget + OWN_PYTHON


def test_a_pool_adds_its_own_slots(busy: Callable[[int, int, int], int]) -> None:
    """
    Two teams of two slots keep four threads busy, and the count shows all four.
    """
    at_once, steadily = most_threads(4, busy(2, 2, 1))

    assert steadily <= 4 <= at_once
