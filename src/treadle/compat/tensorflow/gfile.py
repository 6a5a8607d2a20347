"""tf.io.gfile.GFile, with which programs read graph files."""

from __future__ import annotations

import os
from typing import Any, Self


class GFile:
    """A file, opened as with open(): `with tf.io.gfile.GFile(path, "rb") as file: file.read()`.

    See tf.io.gfile.GFile in TensorFlow's documentation.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        text = {} if "b" in mode else {"encoding": "utf-8"}
        self._file = open(name, mode, **text)  # type: ignore[call-overload]  # noqa: PTH123, SIM115 - closed by its user
        self.name = name
        self.mode = mode

    def read(self, n: int = -1) -> Any:
        """Read at most `n` bytes or characters; all that remain for -1."""
        return self._file.read(n)

    def write(self, file_content: Any) -> None:
        """Append to the file."""
        self._file.write(file_content)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.stat(self.name).st_size  # noqa: PTH116 - the name may be bytes

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Any:
        return iter(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
