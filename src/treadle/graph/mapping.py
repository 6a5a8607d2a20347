"""Constants that are mapped from the model's file: read page by page on use, and released again.

Only compiling reads them. Constants that a run needs are copied (`resident`), so that a change of the file cannot
affect a run. Pages that another process has cut off the file are read as zeros (mapped_file.h), so whoever has read
constants calls verify_files().
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from treadle import _native, forking
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
_maps: weakref.WeakValueDictionary[tuple[Any, ...], _native.MappedFile] = weakref.WeakValueDictionary()
_reading: ContextVar[list[_native.MappedFile] | None] = ContextVar("mapped files that are being read", default=None)
_files: weakref.WeakKeyDictionary[_native.MappedFile, _File] = weakref.WeakKeyDictionary()


def mapped(handle: int, title: str) -> memoryview:
    """The content of the open file `handle`, called `title` in messages; read-only. `handle` stays the caller's.

    A file that is mapped already, and was not written since, is not mapped again: sessions of one model have two file
    descriptors together. Raises OSError where files cannot be mapped, and for an empty one.
    """
    status = os.fstat(handle)
    key = (title, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    with _lock:
        memory = _maps.get(key)
        if memory is None:
            memory = _native.map_file(handle, 0, status.st_size, huge_pages=False)
            own = os.dup(handle)
            weakref.finalize(memory, os.close, own)
            _maps[key] = memory
            _files[memory] = _File(own, title, _state(own))
    _note_reading(memory)
    return memoryview(memory)


def verify_files(arrays: list[Array]) -> None:
    """Raise ModelError if a file that one of `arrays` lies in was written or cut since it was mapped."""
    for memory in {id(memory): memory for array in arrays if (memory := _mapping(array)) is not None}.values():
        if _is_changed(memory):
            raise ModelError(
                f"{_files[memory].title} was changed after it was loaded, and its weights are needed again for other "
                "inputs or outputs; make a new session, and replace model files by renaming instead of writing to them"
            )
        _note_reading(memory)


@contextmanager
def refusing_changed_files() -> Iterator[None]:
    """Return a context manager for code that reads mapped files, in which zeros may replace what was cut off.

    It raises ModelError if a file that was mapped or verified inside was written or cut meanwhile, also in place of an
    error that this caused.
    """
    files: list[_native.MappedFile] = []
    token = _reading.set(files)
    try:
        yield
    finally:
        _reading.reset(token)
        changed = sorted({_files[memory].title for memory in files if _is_changed(memory)})
        if changed:
            raise ModelError(
                f"{' and '.join(changed)} was changed while it was read; make a new session of the whole file, and "
                "replace model files by renaming instead of writing to them"
            ) from None


def _note_reading(memory: _native.MappedFile) -> None:
    files = _reading.get()
    if files is not None:
        files.append(memory)


def _is_changed(memory: _native.MappedFile) -> bool:
    """Whether the file was written or cut since it was mapped."""
    file = _files[memory]
    return memory.was_cut or _state(file.handle) != file.state


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
    base = np.frombuffer(memoryview(memory), np.uint8).__array_interface__["data"][0]
    first = array.__array_interface__["data"][0] - base
    memory.release(first, first + array.nbytes)


def file_of(array: Array) -> _native.MappedFile | None:
    """The mapped file that `array` is a view of; None if it is of no file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, _native.MappedFile) else None


def _mapping(array: Array) -> _native.MappedFile | None:
    """The model's file that `array` is a view of."""
    file = file_of(array)
    return None if file is None or file not in _files else file


def _state(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_size, status.st_mtime_ns
