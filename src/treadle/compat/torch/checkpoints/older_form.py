"""Checkpoints in the form before PyTorch 1.6: pickles one after another, then the bytes of storages."""

from __future__ import annotations

import io
import os
import pickle
import sys
from dataclasses import dataclass, field
from typing import IO, Any, cast

import numpy as np

from treadle.compat.torch.checkpoints.pickler import Saved
from treadle.compat.torch.checkpoints.places import Places
from treadle.compat.torch.checkpoints.storages import Storage, class_and_bytes, corrupt
from treadle.compat.torch.checkpoints.unpickler import Unpickler

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
"""The first pickle."""

PROTOCOL_VERSION = 1001
"""The second one."""


class _Bounded(io.RawIOBase):
    """A file that allocates no more for a read than is left in it, whatever a damaged pickle asks for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        begin = file.tell()
        self.end = file.seek(0, os.SEEK_END)
        file.seek(begin)

    @property
    def left(self) -> int:
        """Bytes behind the place of the next read."""
        return max(0, self.end - self._file.tell())

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        return self._file.read(self.left if size < 0 else min(size, self.left))

    def readline(self, size: int | None = -1) -> bytes:
        """The bytes up to the end of a line."""
        return self._file.readline()

    def tell(self) -> int:
        """The place of the next read."""
        return self._file.tell()

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Changes the place of the next read."""
        return self._file.seek(place, whence)


@dataclass(slots=True)
class _Storages:
    """The storages that the pickle names: they get memory at once, and their bytes after it."""

    places: Places
    left: int
    """Bytes that further ones may take: no more than the file has."""
    found: dict[str, Storage] = field(default_factory=dict)
    itemsizes: dict[str, int] = field(default_factory=dict)

    def load(self, named: tuple[Any, ...]) -> Storage:
        """The storage that the checkpoint names ("storage", class, key, location, elements, view)."""
        if len(named) not in (5, 6) or (len(named) == 6 and named[5] is not None):
            raise corrupt(f"wanted the name of a whole storage, got {named[1:]!r:.80}")
        _, kind, key, location, count = named[:5]
        key = str(key)
        if key not in self.found:
            kind, bytes_ = class_and_bytes(kind, count, self.left)
            self.left -= bytes_
            self.found[key] = self.places.restore(Storage(np.empty(bytes_, np.uint8), kind.dtype), str(location))
            self.itemsizes[key] = kind.itemsize
        return self.found[key]

    def fill(self, key: str, file: _Bounded) -> None:
        """Reads the bytes of storage `key`, behind their number of elements."""
        data, itemsize = self.found[key].data, self.itemsizes[key]
        count = int.from_bytes(file.read(8), "little", signed=True)
        if count * itemsize != data.nbytes:
            raise corrupt(f"storage {key!r} has {count} elements, its tensors say {data.nbytes // itemsize}")
        read = file.read(data.nbytes)
        if len(read) != data.nbytes:
            raise corrupt(f"the file ends within storage {key!r}")
        data[:] = np.frombuffer(read, np.uint8)


def load_older(file: IO[bytes], places: Places) -> Any:
    """Returns the contents of a checkpoint in this form.

    Raises:
        UnpicklingError: It is damaged, or needs what is not allowed.
        RuntimeError: It is no such checkpoint.
    """
    bounded = _Bounded(file)
    storages = _Storages(places, bounded.end)
    unpickler = Unpickler(cast("IO[bytes]", bounded), storages.load)
    if unpickler.load() != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = unpickler.load()
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    system = unpickler.load()
    if not isinstance(system, dict) or not system.get("little_endian", True):
        raise NotImplementedError("a checkpoint in the older form of a big-endian machine; save it again")
    result, keys = unpickler.load(), unpickler.load()
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(storages.found):
        raise corrupt("the list of storages is not that of the tensors")
    for key in map(str, keys):
        storages.fill(key, bounded)
    return result


def write_older(file: IO[bytes], data: bytes, storages: list[Saved]) -> None:
    """Writes the pickle `data` and its storages."""
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for value in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        file.write(pickle.dumps(value, protocol=2))
    file.write(data)
    file.write(pickle.dumps([key for key, _ in storages], protocol=2))
    for _, array in storages:
        file.write(array.size.to_bytes(8, "little"))
        file.write(array.view(np.uint8).data)
