"""NumPy's own threads, kept out of Python tasks: a task has one place of its team, and so one thread.

NumPy multiplies matrices by OpenBLAS or MKL, which start a thread for each CPU. While any Python task of treadle computes,
NumPy's BLAS uses the calling thread alone; what was set before comes back with the last task. MKL can do so for the
calling thread only; OpenBLAS has one number for the process, so there programs that use NumPy beside runs feel it too.
Other packages' copies of these libraries are left alone.
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
    """How to get and set the threads of NumPy's BLAS; None if it is none that is known."""
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
            return lambda: 0, local  # 0: as the process has it
    return None


def _libraries() -> list[str]:
    """Files that may be NumPy's BLAS: in its own package, else of those that the process has loaded."""
    home = Path(np.__file__).parent
    own = [str(file) for folder in (home.parent / "numpy.libs", home / ".dylibs") for file in folder.glob("*openblas*")]
    if own:
        return own
    try:
        loaded = {line.split(maxsplit=5)[-1].strip() for line in _MAPS.read_text(errors="replace").splitlines()}
    except OSError:
        return []
    return sorted(file for file in loaded if "openblas" in os.path.basename(file) or "mkl_rt" in file)  # noqa: PTH119


class _OneThread:
    """Counts the threads inside; the first one in sets NumPy's BLAS to one thread, the last one out sets it back."""

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
        """Whether the calling thread is in a Python task that has a place."""
        return getattr(self._here, "depth", 0) > 0

    def forked(self) -> None:
        """For the child, which has none of the other threads."""
        inside = self._inside
        self._inside = int(self.is_inside())
        number = _number() if inside else None
        if number is not None and self._inside == 0:
            number[1](self._before)


one_thread = _OneThread()
"""`with one_thread:` around what computes with NumPy in a place of a team."""

os.register_at_fork(after_in_child=one_thread.forked)
