"""Constants that are mapped from the model's file: read page by page on use, and released again.

Only compiling reads them. Constants that a run needs are copied (`resident`), so that a change of the file cannot
affect a run.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any, NamedTuple

import numpy as np

from treadle import forking
from treadle.errors import ModelError

Array = np.ndarray[Any, Any]


class _File(NamedTuple):
    """A mapped file: its descriptor, its title in messages, and its size in bytes and modification time in ns."""

    handle: int
    title: str
    state: tuple[int, int]


_COPIED = 1 << 20
"""Elements that `resident` copies before it releases their pages."""

_lock = forking.lock()
_maps: weakref.WeakValueDictionary[tuple[Any, ...], mmap.mmap] = weakref.WeakValueDictionary()
_files: weakref.WeakKeyDictionary[mmap.mmap, _File] = weakref.WeakKeyDictionary()


def mapped(handle: int, title: str) -> memoryview:
    """The content of the open file `handle`, called `title` in messages; read-only. `handle` stays the caller's.

    A file that is mapped already, and was not written since, is not mapped again: sessions of one model have two file
    descriptors together. Raises OSError or ValueError where files cannot be mapped, and for an empty one.
    """
    status = os.fstat(handle)
    key = (title, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    with _lock:
        memory = _maps.get(key)
        if memory is None:
            memory = mmap.mmap(handle, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
            own = os.dup(handle)
            weakref.finalize(memory, os.close, own)
            _maps[key] = memory
            _files[memory] = _File(own, title, _state(own))
    return memoryview(memory)


def verify_files(arrays: list[Array]) -> None:
    """Raise ModelError if a file that one of `arrays` lies in was written or cut since it was mapped."""
    for memory in {id(memory): memory for array in arrays if (memory := _mapping(array)) is not None}.values():
        file = _files[memory]
        if _state(file.handle) != file.state:
            raise ModelError(
                f"{file.title} was changed after it was loaded, and its weights are needed again for other inputs or "
                "outputs; make a new session, and replace model files by renaming instead of writing into them"
            )


def resident(array: Array) -> Array:
    """`array`, contiguous and aligned, in memory: a copy if it lies in a file, whose pages are dropped as it is
    made."""
    if _mapping(array) is not None:
        if not array.flags.c_contiguous:
            return np.array(array, order="C")
        copy = np.empty(array.shape, array.dtype)
        source, target = array.reshape(-1), copy.reshape(-1)
        for start in range(0, source.size, _COPIED):
            part = source[start : start + _COPIED]
            target[start : start + _COPIED] = part
            release(part)
        return copy
    return np.require(array, requirements=("C", "A"))


def is_mapped(array: Array) -> bool:
    """Whether `array` lies in a file."""
    return _mapping(array) is not None


def release(array: Array) -> None:
    """Drop the pages of `array` from memory if it lies in a file; they are read again when they are used."""
    memory = _mapping(array)
    if memory is None or not array.flags.c_contiguous:
        return
    base = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    first = array.__array_interface__["data"][0] - base
    start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (first + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if start < end:
        memory.madvise(mmap.MADV_DONTNEED, start, end - start)


def _mapping(array: Array) -> mmap.mmap | None:
    """The mapping that `array` is a view of."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) and base in _files else None


def _state(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_size, status.st_mtime_ns
