"""Reads or maps model files, which must be regular files that are not too large for protobuf."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from treadle.errors import ModelFormatError
from treadle.graph.mapping import mapped

MAX_BYTES = 2**31 - 1
"""The largest protobuf message."""


SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a SavedModel."""


VARIABLES = Path("variables", "variables")
"""How the files of a SavedModel's checkpoint begin, from its folder on."""


def folder_of(model: Any) -> Path | None:
    """Returns the folder of the SavedModel at the path `model`; None for other models."""
    if not isinstance(model, str | os.PathLike):
        return None
    path = Path(os.fsdecode(os.fspath(model)))
    with suppress(OSError, ValueError):  # reading it says what is wrong with the path
        if (path / SAVED_MODEL).exists():
            return path
    return None


def checkpoint_files(folder: Path) -> list[str]:
    """Returns the files of the checkpoint of the SavedModel in `folder`, as paths relative to it, sorted."""
    try:
        return sorted(f"{VARIABLES.parent}/{path.name}" for path in (folder / VARIABLES.parent).iterdir())
    except OSError:  # it has no variables, or reading them says what is wrong
        return []


def read_file(path: str | bytes, title: str, wanted: str, advice: str, most: float = MAX_BYTES) -> bytes:
    """Returns the content of the file `path`, which messages call `title`.

    Raises ModelFormatError if it cannot be read, is no regular file (`wanted` says what it should be) or has more than
    `most` bytes (`advice` says what to do then).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ModelFormatError(f"{title} is no regular file; wanted {wanted}")
            check_size(status.st_size, title, wanted, advice, most)
            return file.read(status.st_size)
    except OSError as error:
        raise ModelFormatError(
            f"{title} cannot be read: {os.strerror(error.errno or 0)}; "
            f"check the path {os.fsdecode(path)!r} and its permissions"
        ) from None
    except ValueError as error:  # a path with a NUL character
        raise ModelFormatError(f"{title} cannot be read: {error}") from None


def map_file(path: str | bytes, title: str, wanted: str, advice: str, most: float = MAX_BYTES) -> memoryview:
    """Returns the content of the file `path` like read_file(), but mapped where that is possible."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return memoryview(read_file(path, title, wanted, advice, most))
    try:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= most:
            with suppress(OSError, ValueError):
                return mapped(handle, title)
    finally:
        os.close(handle)
    return memoryview(read_file(path, title, wanted, advice, most))


def check_size(size: int, title: str, wanted: str, advice: str, most: float = MAX_BYTES) -> None:
    """Raise ModelFormatError if `size` bytes are more than `most`."""
    if size > most:
        allowed = f"{most} ({most / 2**30:.0f} GiB)"
        raise ModelFormatError(f"{title} has {size} bytes; {wanted} has at most {allowed}: {advice}")
