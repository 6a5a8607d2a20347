"""Returns memory to the system after a compile: the pages of LLVM's code, and freed memory that the C library keeps.

Without this both stay resident until the process ends, which may be months after it compiled.
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
"""MADV_DONTNEED on Linux: drops pages of a mapped file; the next access maps them again from the page cache."""


def release_code(library: str) -> None:
    """Drops the pages of machine code of the loaded `library` (a path). Does nothing on systems other than Linux.

    Safe while the library runs: executing a dropped page maps it again, and no page of code was ever modified.
    """
    if sys.platform != "linux":
        return
    for start, size in _code_of(library):
        _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONTNEED)


def release_llvm_code() -> None:
    """Drops the pages of LLVM's code, some 50 MB. They are mapped again when LLVM runs."""
    from llvmlite import binding

    release_code(binding.ffi.lib._name)  # noqa: SLF001 - what ctypes calls the path of a library


def release_heap() -> None:
    """Returns freed memory that glibc keeps to the system. Does nothing with another C library."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            _libc().malloc_trim(ctypes.c_size_t(0))


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@lru_cache(maxsize=4)
def _code_of(library: str) -> tuple[tuple[int, int], ...]:
    """Returns (address, bytes) of each mapping of the code of `library`, which is never unloaded."""
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
