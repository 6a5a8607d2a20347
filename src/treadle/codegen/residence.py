"""Memory that compiling no longer needs, given back to the system: pages of LLVM's code, and what the C library keeps free.

Both stay otherwise until the process ends, which may be months after the one time it compiled.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_DONTNEED = 4
"""MADV_DONTNEED on Linux: pages of a file are dropped, and read again, from its cached copy, when they are needed."""


def shed_code(library: str) -> None:
    """Drop the pages of machine code of the loaded `library` (a path). Does nothing where the system is not Linux.

    Safe while the library runs: code that is executed is mapped again. Code is never written, so no change is lost.
    """
    if sys.platform != "linux":
        return
    for start, size in _code_of(library):
        _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONTNEED)


def shed_llvm() -> None:
    """Drop the pages of LLVM's code: 50 MB, which come back as they are needed."""
    from llvmlite import binding

    shed_code(binding.ffi.lib._name)  # noqa: SLF001 - what ctypes calls the path of a library


def shed_heap() -> None:
    """Give back the memory that was freed but that the C library keeps; nothing where it is not glibc."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            _libc().malloc_trim(ctypes.c_size_t(0))


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@lru_cache(maxsize=4)
def _code_of(library: str) -> tuple[tuple[int, int], ...]:
    """Where the code of `library` lies: (address, bytes). It stays there, as libraries are never unloaded here."""
    try:
        return tuple(_executable(_MAPS.read_text(), str(Path(library).resolve())))
    except OSError:
        return ()


def _executable(maps: str, path: str) -> Iterator[tuple[int, int]]:
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1] == "r-xp" and fields[5] == path:
            start, _, end = fields[0].partition("-")
            yield int(start, 16), int(end, 16) - int(start, 16)
