"""Writes an artifact while its model is compiled. Constants are written first and from then on read from the file.

So a compile does not need memory for packed weights and memory for LLVM at the same time.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.codegen.artifact import (
    LIVE_RESOURCES,
    MAGIC,
    SIZES,
    Artifact,
    Resources,
    constants_offset,
    digest,
    in_blocks,
    map_file,
    offsets_of,
    padded,
    record_of,
)
from treadle.codegen.cache import open_cache
from treadle.codegen.resident_memory import release_heap
from treadle.graph.value import Value
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.packed import moved
from treadle.plan.plan import Buffer, Plan
from treadle.runtime.python_step import is_storable

Array = np.ndarray[Any, Any]


class ArtifactWriter:
    """The unfinished file of the artifact `key`. The user must close it, also after an error."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._file: int | None = None
        self._partial = ""
        self._constants = (0, 0)
        """Size in bytes and CRC-32."""

    def move_constants(self, plan: Plan) -> None:
        """Writes the constants of `plan` to the file and makes the plan use the file's copy.

        Does nothing for a plan that cannot become an artifact: one that calls a provider or Python functions that have
        no form on disk, or whose constants take too large a part of the cache folder.
        """
        if self._file is not None or any(
            isinstance(call.spec, LibraryGemmSpec) or (call.spec is None and not is_storable(call.function))
            for call in plan.calls
        ):
            return
        moves = _moves(plan)
        offsets, total = offsets_of([one.array for one in moves])
        with open_cache() as cache:
            begun = None if cache is None or not cache.has_room_for(total) else cache.begin(self._key)
            if cache is None or begun is None:
                return
            self._file, self._partial = begun
            try:
                self._constants = total, _move(moves, offsets, self._file, constants_offset(total), total)
            except OSError as error:
                cache.abandon(self._partial, error)
                self._close_file()
        release_heap()

    def store(self, artifact: Artifact) -> None:
        """Writes the rest of `artifact` and stores the file in the cache, if the constants were written before."""
        layout = artifact.program.layout
        if not isinstance(layout.kept, Resources):
            return
        LIVE_RESOURCES[self._key] = layout.kept
        if self._file is None:
            return
        kernels = layout.kept.kernels
        record = record_of(artifact, kernels, offsets_of(layout.kept.arrays)[0])
        if record is None:
            return
        head = json.dumps(record, separators=(",", ":")).encode()
        code = b"".join(one.content for one in kernels.objects)
        total, checksum = self._constants
        sizes = SIZES.pack(len(head), len(code), total, checksum)
        with open_cache() as cache:
            if cache is None:
                return
            try:
                _write(self._file, constants_offset(total) + total, head + code)
                _write(self._file, 0, MAGIC + digest(self._key, sizes, head, code) + sizes)
            except OSError as error:
                cache.abandon(self._partial, error)
            else:
                cache.finish(self._partial, self._key)
        self._close_file()

    def close(self) -> None:
        """Removes the file if it was not stored. Plans that use its constants keep their mappings."""
        if self._file is None:
            return
        with open_cache() as cache:
            if cache is not None:
                cache.abandon(self._partial)
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@dataclass(slots=True)
class _Move:
    """A constant to be written to the file: its buffer, and the values that refer to the same array."""

    buffer: Buffer
    values: list[Value]

    @property
    def array(self) -> Array:
        assert self.buffer.data is not None
        return self.buffer.data

    def replace(self, memory: Array, offset: int) -> None:
        """Makes the plan use the copy at `offset` in `memory`, so that the array can be freed."""
        array = self.array
        copy = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
        moved(array, copy)
        self.buffer.data = copy
        for value in self.values:
            value.data = copy


def _moves(plan: Plan) -> list[_Move]:
    values: dict[int, list[Value]] = {}
    for value in plan.places:
        if value.data is not None:
            values.setdefault(id(value.data), []).append(value)
    return [_Move(one, values.get(id(one.data), [])) for one in plan.buffers if one.data is not None]


def _move(moves: list[_Move], offsets: list[int], file: int, first: int, total: int) -> int:
    """Writes the constants to `file` from byte `first` on and returns the CRC-32 of all.

    Each array is freed as soon as it is written, so that the system can use its memory for the file's next pages. After
    an OSError the plan uses the file's copy of the constants that were written, and the arrays of the others.
    """
    os.ftruncate(file, first + total)
    memory = map_file(file, first, total)
    checksum = written = done = 0
    for block in in_blocks(padded(one.array for one in moves)):
        _write(file, first + written, block)
        checksum = zlib.crc32(block, checksum)
        written += len(block)
        while done < len(moves) and offsets[done] + moves[done].array.nbytes <= written:
            moves[done].replace(memory, offsets[done])
            done += 1
    return checksum


def _write(file: int, offset: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        count = os.pwrite(file, rest, offset)
        offset, rest = offset + count, rest[count:]
