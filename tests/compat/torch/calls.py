"""Scripts called again and again, and how many of the calls were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Recorded:
    """How many calls of scripts were recorded, one op after another, since it was asked last."""

    def __init__(self) -> None:
        self.made = 0

    def since(self) -> int:
        made, self.made = self.made, 0
        return made


def warm(script: Callable[..., Any], *args: Any) -> None:
    """Call a script until it is replayed."""
    for _ in range(3):
        script(*args)
