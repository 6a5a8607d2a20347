"""Reads models; the only module of this front end that opens files.

`External.read` opens the files that a model names, inside the model's folder only.
"""

import os
import stat
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from treadle.errors import ModelFormatError
from treadle.frontends.faults import Fault
from treadle.frontends.files import check_size, map_file
from treadle.frontends.onnx.encoding import check_text
from treadle.frontends.onnx.payloads import split
from treadle.graph.mapping import mapped
from treadle.records import dataclass

WANTED = "an ONNX file"
TOO_LARGE = "save the model with external data (onnx.save_model(..., save_as_external_data=True))"


@dataclass(frozen=True, slots=True)
class External:
    """The folder a model may read tensors from; None if it has none (a model from bytes or a ModelProto).

    `files` are the contents of those that were read, by location; None for one that cannot be mapped.
    """

    folder: str | None
    files: dict[str, memoryview | None] = field(default_factory=dict)

    def read(self, location: str, offset: int, length: int | None, size: int) -> bytes | memoryview:
        """The `size` bytes at `offset` of the file `location`, a path relative to the folder.

        Every component is opened without following symbolic links; the file must be a regular file
        with one name. `length`, if the model states it, must equal `size`.
        Raises Fault for anything else.
        """
        if self.folder is None:
            raise Fault(
                f"its data is in the file {location!r}, which a model that was not loaded from a path may not read; "
                "pass the path of the model instead"
            )
        parts = location.split("/")
        if not location or location.startswith("/") or "\\" in location or "\0" in location or ".." in parts:
            raise Fault(
                f"its data is in the file {location!r}; wanted a path inside the model's folder, without `..` or `\\`"
            )
        if length is not None and length != size:
            raise Fault(f"its shape and type need {size} bytes of external data, but `length` is {length}")
        names = [part for part in parts if part not in ("", ".")]
        with ExitStack() as opened:
            handle = _open_below(self.folder, names, location, opened)
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Fault(f"its data is in {location!r}, which is no regular file")
            if status.st_nlink != 1:
                raise Fault(f"its data is in {location!r}, which has {status.st_nlink} hard links; wanted one")
            if offset < 0 or offset + size > status.st_size:
                raise Fault(
                    f"its data is bytes {offset} to {offset + size} of {location!r}, which has {status.st_size} bytes"
                )
            content = self._mapped(handle, location)
            if content is None:
                return _read_exactly(handle, offset, size, location)
            if offset + size > len(content):
                raise Fault(f"its data is in {location!r}, which was changed while it was read")
            return content[offset : offset + size]

    def _mapped(self, handle: int, location: str) -> memoryview | None:
        """The contents of the open file, mapped the first time; None for one that cannot be."""
        if location not in self.files:
            try:
                self.files[location] = mapped(handle, f"the file {location!r}")
            except (OSError, ValueError):
                self.files[location] = None
        return self.files[location]


def _open_below(folder: str, names: list[str], location: str, opened: ExitStack) -> int:
    """A handle of the file `names` below `folder`; `opened` closes it and the folders on the way."""
    if not names:
        raise Fault(f"its data is in {location!r}, which is no file")
    try:
        handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, handle)
        for name in names[:-1]:
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            opened.callback(os.close, handle)
        # O_NONBLOCK: opening a FIFO must not wait for its writer
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(names[-1], flags, dir_fd=handle)
        opened.callback(os.close, handle)
    except OSError as error:
        raise Fault(
            f"its data is in {location!r}, which cannot be opened ({os.strerror(error.errno or 0)}); "
            "wanted a file in the model's folder, with no symbolic link on the way"
        ) from None
    return handle


def _read_exactly(handle: int, offset: int, size: int, location: str) -> bytes:
    pieces = []
    while size > 0:
        piece = os.pread(handle, min(size, 1 << 30), offset)
        if not piece:
            raise Fault(f"its data is in {location!r}, which ended while it was read")
        pieces.append(piece)
        offset += len(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed model, what to call it in messages, and where its external data may be."""

    proto: onnx.ModelProto
    title: str
    external: External
    payloads: list[memoryview | None] = field(default_factory=list)
    """For each initialiser its raw data if they were not parsed; empty if all were."""


def read(model: Any) -> Source:
    """`model` (a path, bytes or a ModelProto) as a parsed model.

    Raises ModelFormatError if the file cannot be read, is empty, larger than protobuf allows,
    truncated or no ONNX model.
    """
    if isinstance(model, onnx.ModelProto):
        return _checked(model, "the ModelProto", External(None))
    if isinstance(model, bytes | bytearray | memoryview):
        title = "the model given as bytes"
        return _parsed(memoryview(bytes(model)), title, External(None))
    path = os.fspath(model)
    title = f"the model {Path(path).name!r}"
    return _parsed(map_file(path, title, WANTED, TOO_LARGE), title, External(str(Path(path).parent)))


def _parsed(content: memoryview, title: str, external: External) -> Source:
    check_size(len(content), title, WANTED, TOO_LARGE)
    if not content:
        raise ModelFormatError(f"{title} is empty; wanted an ONNX model")
    parts = split(content)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(parts.message))
    except DecodeError:
        raise ModelFormatError(
            f"{title} is no ONNX model: its {len(content)} bytes are not a protobuf message, or were cut short; "
            "export or download it again"
        ) from None
    return _checked(model, title, external, parts.payloads)


def _checked(
    model: onnx.ModelProto, title: str, external: External, payloads: list[memoryview | None] | None = None
) -> Source:
    if not model.HasField("graph") or model.ir_version < 1:
        lacks = "graph" if not model.HasField("graph") else "ir_version"
        raise ModelFormatError(f"{title} is no ONNX model: it lacks the field `{lacks}`; export or download it again")
    check_text(model, title)
    return Source(model, title, external, payloads or [])
