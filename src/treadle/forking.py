"""Locks that are free in the child of a fork().

The child has one thread, a copy of the one that forked. A lock that another thread held at that moment would stay taken
for ever, as that thread does not exist in the child.
"""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def lock() -> threading.RLock:
    """Return a reentrant lock that is free in a child, unless the thread that forked held it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _free_locks() -> None:
    for each in list(_locks):
        # The standard library resets its own locks in the same way.
        if not each._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            each._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001


os.register_at_fork(after_in_child=_free_locks)
