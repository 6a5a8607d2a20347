"""The runnable threads of a process, counted through /proc, never exceed max(intra_op, inter_op)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.models.runnable import SUPPORTED, most_threads

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="threads are counted through Linux's /proc")


@contextmanager
def busy(intra_op: int, inter_op: int, own_teams: int) -> Iterator[int]:
    """The id of a process that runs sessions, clients, nested runs, Python, NumPy and blocking tasks."""
    command = [sys.executable, "-m", "tests.models.busy", *map(str, (intra_op, inter_op, own_teams))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.stdin.close()
            assert process.wait(60) == 0


@pytest.mark.parametrize(("intra_op", "inter_op"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])
def test_runnable_threads_never_exceed_the_budget(intra_op: int, inter_op: int) -> None:
    """
    No load makes more than max(intra_op, inter_op) threads runnable.

    Five clients run two plain sessions, nested and background runs, Python, NumPy and blocking tasks, and shapes that
    depend on data.
    """
    budget = max(intra_op, inter_op)
    with busy(intra_op, inter_op, own_teams=0) as process:
        at_once, steadily = most_threads(budget, process)

    assert steadily <= budget <= at_once


def test_a_pool_adds_its_own_slots() -> None:
    """
    Two teams of two slots keep four threads busy, and the count shows all four.
    """
    with busy(2, 2, own_teams=1) as process:
        at_once, steadily = most_threads(4, process)

    assert steadily <= 4 <= at_once
