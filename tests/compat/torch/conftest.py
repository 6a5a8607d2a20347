"""Fixtures of tests that call scripts repeatedly."""

from __future__ import annotations

from typing import Any

import pytest

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
