"""Reads checkpoints: an index of tensors by key, and shards with their elements, which are mapped."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.files import map_file, read_file
from treadle.frontends.stored import declared_elements, from_bytes
from treadle.frontends.tensorflow.messages import BundleEntry, BundleHeader
from treadle.frontends.tensorflow.sorted_table import read_table
from treadle.frontends.tensorflow.tensors import dims_of, dtype_of
from treadle.ops.op import Array

WANTED = "a checkpoint as TensorFlow writes it"
ADVICE = "save the model again"
MOST_SHARDS = 1 << 12
"""The largest number of shards of a checkpoint."""


class Checkpoint:
    """The tensors of a checkpoint.

    Elements are not compared with their checksums: reading them all would cost what mapping saves.
    """

    def __init__(self, prefix: Path) -> None:
        """Read the index of the checkpoint, whose files begin with `prefix`.

        Raises Fault for a damaged index, ModelFormatError for one that cannot be read.
        """
        self._prefix = prefix
        self._title = f"the index {prefix.name}.index"
        self._maps: dict[int, memoryview] = {}
        content = read_file(f"{prefix}.index", self._title, WANTED, ADVICE)
        try:
            self._entries = read_table(content)
        except Fault as fault:
            raise type(fault)(f"{self._title}: {fault}") from None
        header = self._parsed(BundleHeader, self._entries.pop(b"", b""), "header")
        self._shards = int(header.num_shards)
        if not 0 < self._shards <= MOST_SHARDS:
            raise Fault(f"{self._title} names {self._shards} shards; wanted 1 to {MOST_SHARDS}")
        if header.endianness:
            raise Unsupported(f"{self._title} is of a big-endian machine; {ADVICE} on a little-endian one")

    def array(self, key: str) -> Array:
        """Return the tensor `key`; its elements stay in the file. Raises Fault if there is none or it is damaged."""
        found = self._entries.get(key.encode())
        if found is None:
            raise Fault(f"the checkpoint has no tensor {key!r}")
        entry = self._parsed(BundleEntry, found, f"entry {key!r}")
        if entry.slices:
            raise Unsupported(f"the tensor {key!r} is stored in {len(entry.slices)} slices; save it as one variable")
        dtype, dims = dtype_of(entry.dtype), dims_of(entry.shape)
        if dtype is dtypes.string:
            raise Unsupported(f"the tensor {key!r} holds text or objects")
        if dims is None or None in dims:
            raise Fault(f"the shape of the tensor {key!r} is not fully known")
        shape = tuple(dim for dim in dims if dim is not None)
        size = declared_elements(shape) * dtype.size
        if size != entry.size:
            raise Fault(f"the tensor {key!r}, {dtype}{list(shape)}, needs {size} bytes, but has {entry.size}")
        shard = self._shard(entry.shard_id) if size else memoryview(b"")
        if entry.offset < 0 or (entry.offset + size > len(shard) and size):
            raise Fault(
                f"the tensor {key!r} lies at {entry.offset} to {entry.offset + size} of shard {entry.shard_id}, "
                f"which has {len(shard)} bytes"
            )
        return from_bytes(shard[entry.offset : entry.offset + size], dtype, shape)

    def _shard(self, number: int) -> memoryview:
        if not 0 <= number < self._shards:
            raise Fault(f"{self._title} names shard {number} of {self._shards}")
        if number not in self._maps:
            path = shard_path(self._prefix, number, self._shards)
            self._maps[number] = map_file(str(path), f"the shard {path.name}", WANTED, ADVICE, math.inf)
        return self._maps[number]

    def _parsed(self, message: Any, content: bytes, what: str) -> Any:
        try:
            return message.FromString(content)
        except DecodeError:
            raise Fault(f"{self._title}: its {what} is damaged") from None


def shard_path(prefix: Path, number: int, count: int) -> Path:
    """Return the path of a shard."""
    return prefix.with_name(f"{prefix.name}.data-{number:05}-of-{count:05}")
