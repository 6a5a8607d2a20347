"""Fixtures of tests that call scripts repeatedly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import treadle
from tests.compat.torch.calls import Recorded
from treadle.compat.torch import tasks
from treadle.compat.torch.jit import replays


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Returns a counter of the script calls that are recorded from now on."""
    counted = Recorded()

    def run(*args: Any) -> Any:
        counted.made += 1
        return tasks.run(*args)

    monkeypatch.setattr(replays, "run", run)
    return counted


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    """Sets the numbers of threads back behind the test."""
    before = treadle.threads.get()
    yield
    treadle.threads.set(intra_op=before.intra_op, inter_op=before.inter_op)
