"""Calls scripts repeatedly, and counts the calls that were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Recorded:
    """The number of calls of scripts that were recorded op by op since the last query."""

    def __init__(self) -> None:
        self.made = 0

    def since(self) -> int:
        made, self.made = self.made, 0
        return made


def warm(script: Callable[..., Any], *args: Any) -> None:
    """Calls a script until it is replayed."""
    for _ in range(3):
        script(*args)
