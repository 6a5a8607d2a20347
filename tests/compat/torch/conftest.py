"""What tests of scripts that are called again share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compat.torch.calls import Recorded
from treadle.compat.torch import tasks
from treadle.compat.torch.jit import replays


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Counts the calls of scripts that are recorded from now on."""
    counted = Recorded()

    def run(*args: Any) -> Any:
        counted.made += 1
        return tasks.run(*args)

    monkeypatch.setattr(replays, "run", run)
    return counted
