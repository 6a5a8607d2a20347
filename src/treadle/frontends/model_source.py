"""The model that a session was made with, which is read when its graph is needed."""

from __future__ import annotations

import hashlib
import math
import os
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from treadle import forking
from treadle.errors import ModelError, ModelFormatError
from treadle.frontends import ONNX, front_end, load
from treadle.frontends.files import MAX_BYTES
from treadle.graph.graph import Graph
from treadle.graph.template import Template

Stamp = tuple[int, ...]
Find = Callable[[Stamp], str | None]
Keep = Callable[[Stamp, str], None]

LARGE = 1 << 20
"""Bytes from which a file's hash is stored."""
SETTLED_NS = 4_000_000_000
"""The age in ns from which a file's times identify its content: it may be written twice in one tick of the clock."""


class ModelSource:
    """A model and the options of `load`.

    `digest` is the SHA-256 of an ONNX model given as a path or as bytes; None for other models, and for files that
    cannot be read: `load` says why. `find` and `keep` look up and store the digests of large files by device, inode,
    size, time of the last write, and time of the last change, which no program can set. `path` is the file; None if the
    model is no file.
    """

    def __init__(self, model: Any, *, find: Find | None = None, keep: Keep | None = None, **options: Any) -> None:
        if isinstance(model, str | os.PathLike):
            model = _absolute(Path(os.fsdecode(model)))
        self.path = model if isinstance(model, Path) else None
        self._load: Callable[[], Graph | Template] | None = partial(load, model, **options)
        self._lock = forking.lock()
        self._loaded: Graph | Template | None = None
        plain = all(value is None for value in options.values())
        self.digest, self._stamp = _digest(model, find, keep) if plain else (None, ())

    def load(self) -> Graph | Template:
        """Return the model's graph or template; the first call reads it.

        Raises what `frontends.load` raises, and ModelError if the file has changed since `digest` was computed.
        """
        with self._lock:
            if self._load is not None:
                loaded = self._load()
                if not self.is_unchanged():
                    raise ModelError(
                        f"the model {str(self.path)!r} was changed after its session was made; "
                        "make a new session of the file, or put the old one back"
                    )
                self._loaded, self._load = loaded, None
            assert self._loaded is not None
            return self._loaded

    def is_unchanged(self) -> bool:
        """True if `digest` is still that of the model."""
        if self.digest is None or self.path is None:
            return True
        try:
            return _stamp(self.path.stat()) == self._stamp or _digest(self.path)[0] == self.digest
        except OSError:
            return False


def _absolute(path: Path) -> Path:
    """Return `path` from the root: the current folder may have changed when the model is read."""
    if path.is_absolute():
        return path
    try:
        return Path.cwd() / path
    except OSError as error:
        raise ModelFormatError(
            f"the model {str(path)!r} cannot be read: there is no current folder any more "
            f"({error.strerror}); give its whole path"
        ) from None


def file_digest(model: Any) -> str | None:
    """Return the SHA-256 of a model given as a path or as bytes; None for folders, unreadable files, other objects."""
    if isinstance(model, str | os.PathLike):
        model = Path(os.fsdecode(model))
    return _hashed(model)[0]


def _digest(model: Any, find: Find | None = None, keep: Keep | None = None) -> tuple[str | None, Stamp]:
    """Return the digest of an ONNX `model` and the stamp of its file."""
    if not isinstance(model, bytes | Path) or front_end(model) != ONNX:
        return None, ()
    return _hashed(model, find, keep, MAX_BYTES)


def _hashed(
    model: Any, find: Find | None = None, keep: Keep | None = None, most: float = math.inf
) -> tuple[str | None, Stamp]:
    """Return the digest of bytes, or the digest and stamp of a file of at most `most` bytes, read in pieces."""
    if isinstance(model, bytes | bytearray | memoryview):
        return hashlib.sha256(model).hexdigest(), ()
    if not isinstance(model, Path):
        return None, ()
    try:
        with os.fdopen(os.open(model, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None, ()
            stamp = _stamp(status)
            large = status.st_size >= LARGE
            found = find(stamp) if find is not None and large else None
            if found is not None:
                return found, stamp
            found = hashlib.file_digest(file, "sha256").hexdigest()
            settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS
            if keep is not None and large and settled and _stamp(os.fstat(file.fileno())) == stamp:
                keep(stamp, found)
            return found, stamp
    except (OSError, ValueError):
        return None, ()


def _stamp(status: os.stat_result) -> Stamp:
    """Return numbers that change when a file's content does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
