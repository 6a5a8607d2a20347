"""Python's garbage collector while models are loaded and compiled, which make many objects that live on."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from treadle import forking

RARE = (100_000, 20, 100)
"""Thresholds meanwhile: the usual ones look at a large model's nodes again and again, for a quarter of its load."""

_lock = forking.lock()
_inside: set[int] = set()
_numbers = count()
_before: list[tuple[int, int, int]] = []


@contextmanager
def rare_collections() -> Iterator[None]:
    """Return a context manager in whose block the collector runs rarely. Blocks nest and may overlap between threads.

    Thresholds that the program has raised itself, or changes meanwhile, stay.
    """
    number = next(_numbers)
    with _lock:
        if not _inside and 0 < gc.get_threshold()[0] < RARE[0]:
            _before[:] = [gc.get_threshold()]
            gc.set_threshold(*RARE)
        _inside.add(number)
    try:
        yield
    finally:
        with _lock:
            _inside.discard(number)
            if not _inside:
                _restore()


def _restore() -> None:
    if _before and gc.get_threshold() == RARE:
        gc.set_threshold(*_before[0])
    _before.clear()


def _forked() -> None:
    """Have no block in a child: those of its parent's threads do not end there."""
    _inside.clear()
    _restore()


os.register_at_fork(after_in_child=_forked)
