"""Compiled models that are mapped from the cache folder and used where they lie.

Only the user's own programs can write there, and treadle never changes a file of it. If another program cuts one all
the same, what is gone is read as zeros (mapped_file.h). No run returns results then.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from treadle import _native, forking
from treadle.errors import RunError
from treadle.graph.mapping import file_of

Array = np.ndarray[Any, Any]

_lock = forking.lock()
_images: weakref.WeakSet[_native.MappedFile] = weakref.WeakSet()


def map_image(handle: int, first: int, size: int) -> Array:
    """Map `size` bytes of the open file from offset `first`, a multiple of the page size; processes share the pages.

    A file that is removed stays readable where it is mapped. Raises OSError if it cannot be mapped.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    image = _native.map_file(handle, first, size, huge_pages=True)
    with _lock:
        _images.add(image)
    return np.frombuffer(memoryview(image), np.uint8)


def any_is_cut(arrays: Iterable[Array]) -> bool:
    """Whether a part of a file that one of `arrays` is a view of was read that the file no longer had."""
    if not _native.any_file_was_cut():
        return False
    return any(file.was_cut for file in map(file_of, arrays) if file is not None)


def refuse_cut_images() -> None:
    """Raise RunError if a part of an image was read that its file no longer had, and the image is still mapped."""
    with _lock:
        found = any(image.was_cut for image in _images)
    if found:
        raise RunError(
            "a compiled model in the cache folder was cut by another program while it was in use; nothing was "
            "returned; close the sessions of this process and make them again, and leave that folder to treadle"
        )
