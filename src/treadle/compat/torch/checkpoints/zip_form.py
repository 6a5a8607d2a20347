"""Checkpoints in the zip form: the pickle `data.pkl`, and a record for each storage."""

from __future__ import annotations

import io
import os
import struct
import sys
import zipfile
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from treadle.compat.torch.checkpoints.pickler import Saved
from treadle.compat.torch.checkpoints.places import Places
from treadle.compat.torch.checkpoints.storages import Storage, StorageClass, class_and_bytes, corrupt
from treadle.compat.torch.checkpoints.unpickler import Unpickler
from treadle.ops.op import Array

BEGIN = b"PK\x03\x04"
"""The first bytes of such a file."""

_DAMAGED = (zipfile.BadZipFile, EOFError, NotImplementedError, OverflowError, ValueError, struct.error)
"""What `zipfile` raises for damaged archives."""

_ALIGNMENT = 64
"""Storages begin at multiples of this many bytes, as PyTorch maps them."""

_LOCAL_HEADER = 30
"""Bytes of a record's header before its name."""

_ZIP64_FIELD = 20
"""Bytes that a record's header has more if it may exceed 4 GiB."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""Of all records: equal contents are equal files."""


def _swapped(data: Array, kind: StorageClass) -> None:
    """Swaps the bytes of each element, in place."""
    data.view(f"V{kind.itemsize}" if kind.itemsize > 8 else f"u{kind.itemsize}").byteswap(inplace=True)


@dataclass(slots=True)
class _Archive:
    """A checkpoint in the zip form: records under the archive's own folder."""

    file: zipfile.ZipFile
    folder: str
    places: Places
    left: int
    """Bytes that storages may still take: no more than the file has."""
    storages: dict[str, Storage] = field(default_factory=dict)
    is_swapped: bool = False

    def record(self, name: str) -> zipfile.ZipInfo:
        """The record `name`."""
        try:
            found = self.file.getinfo(f"{self.folder}/{name}")
        except KeyError:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {name}: file not found in the archive"
            ) from None
        if found.compress_type != zipfile.ZIP_STORED:
            raise corrupt(f"the record {name!r} is compressed")
        return found

    def load_storage(self, named: tuple[Any, ...]) -> Storage:
        """The storage that the checkpoint names ("storage", class, key, location, elements)."""
        if len(named) != 5:
            raise corrupt(f"wanted five parts of a storage's name, got {len(named)}")
        _, kind, key, location, count = named
        key = str(key)
        if key not in self.storages:
            kind, bytes_ = class_and_bytes(kind, count, self.left)
            record = self.record(f"data/{key}")
            if record.file_size < bytes_:
                raise corrupt(f"a storage of {bytes_} bytes whose record has {record.file_size}")
            self.left -= bytes_
            data = np.empty(bytes_, np.uint8)
            with self.file.open(record) as source:
                assert isinstance(source, zipfile.ZipExtFile)
                if source.readinto(data.data) != bytes_:
                    raise corrupt(f"the record of storage {key!r} ends too soon")
            if self.is_swapped and kind.itemsize > 1:
                _swapped(data, kind)
            self.storages[key] = self.places.restore(Storage(data, kind.dtype), str(location))
        return self.storages[key]


def load_zip(file: IO[bytes], places: Places) -> Any:
    """Returns the contents of a checkpoint in this form.

    Raises:
        UnpicklingError: It is damaged, or needs what is not allowed.
        RuntimeError: It is no such checkpoint.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            folder = names[0].partition("/")[0] if names else ""
            left = file.seek(0, os.SEEK_END)
            found = _Archive(archive, folder, places, left)
            if f"{folder}/constants.pkl" in names:
                raise RuntimeError(
                    "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. "
                    "treadle.Session('model.pt') runs them where PyTorch is installed"
                )
            if f"{folder}/byteorder" in names:
                found.is_swapped = archive.read(found.record("byteorder")).decode("ascii", "replace") != sys.byteorder
            data = archive.read(found.record("data.pkl"))
            return Unpickler(io.BytesIO(data), found.load_storage).load()
    except _DAMAGED as error:
        raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {error}") from None


def write_zip(file: IO[bytes], folder: str, data: bytes, storages: list[Saved]) -> None:
    """Writes the pickle `data` and its storages under `folder`."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(f"{folder}/data.pkl", _DATE), data)
        archive.writestr(zipfile.ZipInfo(f"{folder}/byteorder", _DATE), sys.byteorder)
        for key, array in storages:
            record = zipfile.ZipInfo(f"{folder}/data/{key}", _DATE)
            record.file_size = array.nbytes
            is_large = array.nbytes >= zipfile.ZIP64_LIMIT
            begin = file.tell() + _LOCAL_HEADER + (_ZIP64_FIELD if is_large else 0)
            record.extra = _padding(begin + len(record.filename.encode()))
            with archive.open(record, "w", force_zip64=is_large) as target:
                target.write(array.view(np.uint8).data)
        archive.writestr(zipfile.ZipInfo(f"{folder}/version", _DATE), "3\n")


def _padding(place: int) -> bytes:
    """An extra field of a record, after which its data begin at a multiple of the alignment."""
    header = 4
    length = -(place + header) % _ALIGNMENT
    return b"FB" + length.to_bytes(2, "little") + b"Z" * length
