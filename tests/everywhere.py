"""Runs at several thread settings, by one client and by several at once; workers share all that can be shared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from treadle import _native

CLIENTS = 4

Result = TypeVar("Result")


class Eager:
    """The native core, with a high cost for every step, so that workers share every step however small it is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_native, name)

    def Program(self, *, steps: list[Any], **rest: Any) -> _native.Program:  # noqa: N802 - the name of the class that it replaces
        return _native.Program(steps=[(*step[:4], 1e8) for step in steps], **rest)


class Clients:
    """Threads that run the same at the same time."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def at_every_setting(self, run: Callable[[int, int], Result], settings: Sequence[tuple[int, int]]) -> list[Result]:
        """Returns what `run` gives at each of `settings`, then in two runs of each client, which begin at once."""
        barrier = threading.Barrier(CLIENTS)

        def client(number: int) -> list[Result]:
            barrier.wait()
            return [run(*settings[(number + turn) % len(settings)]) for turn in range(2)]

        alone = [run(*each) for each in settings]
        return alone + [result for found in self._pool.map(client, range(CLIENTS)) for result in found]
