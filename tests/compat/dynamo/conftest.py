"""What the tests of the torch.compile backend share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """Resets captured graphs and the report before each test, and runs it without gradients."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")
    from treadle.compat import dynamo

    torch._dynamo.reset()
    dynamo.reset()
    with torch.no_grad():
        yield


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The sessions that the backend makes, in their order."""
    from treadle.compat.dynamo import compiled

    made: list[Any] = []

    class Kept(compiled.Session):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(compiled, "Session", Kept)
    return made
