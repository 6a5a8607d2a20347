"""NumPy's threads in Python tasks: none but the task's own, as a task holds one slot of its team.

NumPy multiplies matrices with OpenBLAS or MKL, which start a thread for each CPU. While a Python task of treadle
computes, NumPy's BLAS uses the calling thread only; the last task restores the previous setting. MKL has a setting for
each thread. OpenBLAS has one for the process, so it also affects NumPy beside runs. Other packages' copies of these
libraries keep their settings.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from treadle import forking

_MAPS = Path("/proc/self/maps")
_OPENBLAS = ("openblas", "scipy_openblas")
_SUFFIXES = ("", "64_", "_64", "_64_")


@lru_cache(maxsize=1)
def _number() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Return the functions that get and set the threads of NumPy's BLAS; None for an unknown BLAS."""
    for file in _libraries():
        try:
            library = ctypes.CDLL(file)
        except OSError:
            continue
        for prefix in _OPENBLAS:
            for suffix in _SUFFIXES:
                get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                set_ = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if get is not None and set_ is not None:
                    set_.restype = None
                    return get, set_
        local = getattr(library, "MKL_Set_Num_Threads_Local", None)
        if local is not None:
            return lambda: 0, local  # 0: the process's setting
    return None


def _libraries() -> list[str]:
    """Return files that may be NumPy's BLAS: those in its package, else those that the process has loaded."""
    home = Path(np.__file__).parent
    own = [str(file) for folder in (home.parent / "numpy.libs", home / ".dylibs") for file in folder.glob("*openblas*")]
    if own:
        return own
    try:
        loaded = {line.split(maxsplit=5)[-1].strip() for line in _MAPS.read_text(errors="replace").splitlines()}
    except OSError:
        return []
    return sorted(file for file in loaded if "openblas" in os.path.basename(file) or "mkl_rt" in file)  # noqa: PTH119


class _SingleThread:
    """A context manager in which NumPy's BLAS uses one thread. The last thread to leave it restores the setting."""

    def __init__(self) -> None:
        self._lock = forking.lock()
        self._inside = 0
        self._before = 0
        self._here = threading.local()

    def __enter__(self) -> None:
        number = _number()
        depth = self._here.depth = getattr(self._here, "depth", 0) + 1
        if number is None or depth > 1:
            return
        get, set_ = number
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = get()
            set_(1)

    def __exit__(self, *_: object) -> None:
        number = _number()
        self._here.depth -= 1
        if number is None or self._here.depth > 0:
            return
        with self._lock:
            self._inside -= 1
            if self._inside == 0 or self._before == 0:
                number[1](self._before)

    def is_inside(self) -> bool:
        """True if the calling thread is in a Python task that holds a slot."""
        return getattr(self._here, "depth", 0) > 0

    def forked(self) -> None:
        """Count, in the child after fork(), the only thread that it has."""
        inside = self._inside
        self._inside = int(self.is_inside())
        number = _number() if inside else None
        if number is not None and self._inside == 0:
            number[1](self._before)


single_thread = _SingleThread()
"""Entered around Python tasks that hold a slot."""

os.register_at_fork(after_in_child=single_thread.forked)
