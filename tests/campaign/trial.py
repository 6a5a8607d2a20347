"""A trial of an attack: what a worker does and reports."""

from __future__ import annotations

import os
import random
import selectors
import signal
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from treadle.errors import TreadleError

Array = np.ndarray[Any, Any]

TIMEOUT = 2.0
"""Of each run of a hostile model, in seconds."""
CHILD_SECONDS = 60.0
"""After which a child process counts as hanging."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried, for people, and what tries it.

    `run` returns `ok`, the class of treadle's error, or what is wrong, which begins with `FAULT`.
    """

    label: str
    run: Callable[[], str]


@cache
def home() -> Path:
    """Returns a folder of this process and its children, which is removed when the worker has ended."""
    return Path(tempfile.mkdtemp())


def rng_of(kind: str, number: int) -> random.Random:
    """Returns the random numbers of a trial."""
    return random.Random(f"{kind} {number}")


def outcome(work: Callable[[], str]) -> str:
    """Returns what `work` does, or the outcome for what it raises."""
    try:
        return work()
    except TreadleError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - any other class is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"FAULT {type(error).__name__}: {error!s:.200} ({Path(place.filename).name}:{place.lineno})"


def same(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    """Returns whether all results have the same bits; those that are no arrays are not compared."""
    return all(_bits(first[name]) == _bits(second[name]) for name in first)


def _bits(value: object) -> bytes:
    array: Array | None = value if isinstance(value, np.ndarray) and value.dtype != object else None
    return b"" if array is None else array.tobytes()


class Child:
    """A process that does `work` and sends its outcome; made by fork(), so that it has what is imported."""

    def __init__(self, work: Callable[[], str]) -> None:
        self._pipe, sends = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            try:
                os.write(sends, outcome(work).encode()[:4000])
            finally:
                os._exit(0)
        os.close(sends)

    def outcome(self, seconds: float = CHILD_SECONDS) -> str:
        """Returns the outcome; that it hangs or has died is a fault."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            is_there = bool(selector.select(seconds))
        if not is_there:
            self.kill()
        said = os.read(self._pipe, 4096).decode() if is_there else ""
        status = self.end()
        if not is_there:
            return f"FAULT it did not end within {seconds:g} s"
        if os.WIFSIGNALED(status) or not said:
            return f"FAULT it died: {signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status}"
        return said

    def kill(self) -> None:
        """Sends it SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Waits for its end and returns its status."""
        os.close(self._pipe)
        return os.waitpid(self.pid, 0)[1]
