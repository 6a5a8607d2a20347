"""Writes an artifact while its model is compiled. Constants are written first and from then on read from the file.

So a compile does not need memory for packed weights and memory for LLVM at the same time.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.codegen.artifact import (
    LIVE_RESOURCES,
    MAGIC,
    SIZES,
    constants_offset,
    digest,
    in_blocks,
    map_file,
    offsets_of,
    padded,
)
from treadle.codegen.artifact_record import Artifact, Resources, address_of, record_of
from treadle.codegen.cache import open_cache
from treadle.codegen.resident_memory import release_heap
from treadle.graph.value import Value
from treadle.plan.call import Call
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.packed import moved
from treadle.plan.plan import Buffer, Plan, with_bodies
from treadle.runtime.python_step import is_storable

Array = np.ndarray[Any, Any]


class ArtifactWriter:
    """The unfinished file of the artifact `key`. The user must close it, also after an error."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._file: int | None = None
        self._partial = ""
        self._memory = np.empty(0, np.uint8)
        """The constants in the file."""
        self._checksum = 0

    def move_constants(self, plan: Plan) -> None:
        """Writes the constants of `plan` to the file and makes the plan use the file's copy.

        Does nothing for a plan that cannot become an artifact: one that calls a provider or Python functions that have
        no form on disk, or whose constants take too large a part of the cache folder.
        """
        if self._file is not None or not all(_has_form(call) for each in with_bodies(plan) for call in each.calls):
            return
        moves = _moves(plan)
        offsets, total = offsets_of([one.array for one in moves])
        with open_cache() as cache:
            begun = None if cache is None or not cache.has_room_for(total) else cache.begin(self._key)
            if cache is None or begun is None:
                return
            self._file, self._partial = begun
            try:
                first = constants_offset(total)
                os.ftruncate(self._file, first + total)
                self._memory = map_file(self._file, first, total)
                self._checksum = _move(moves, offsets, self._file, first, self._memory)
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
        record = record_of(artifact, layout.kept)
        if record is None:
            return
        start = address_of(self._memory)
        record["constants"] = [(address_of(array) - start, array.nbytes) for array in layout.kept.arrays]
        head = json.dumps(record, separators=(",", ":")).encode()
        code = b"".join(one.content for one in layout.kept.kernels.objects)
        total = self._memory.nbytes
        sizes = SIZES.pack(len(head), len(code), total, self._checksum)
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


def _has_form(call: Call) -> bool:
    """Whether a step of `call` has a form on disk, except for the plans of its bodies."""
    if call.spec is None:
        return call.control is not None or is_storable(call.function)
    return not isinstance(call.spec, LibraryGemmSpec)


@dataclass(slots=True)
class _Move:
    """A constant to be written to the file, and what refers to it."""

    array: Array
    holders: list[Buffer | Value] = field(default_factory=list)

    def replace(self, memory: Array, offset: int) -> None:
        """Makes the plans use the copy at `offset` in `memory`, so that the array can be freed."""
        array = self.array
        copy = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
        moved(array, copy)
        self.array = copy
        for holder in self.holders:
            holder.data = copy


def _moves(plan: Plan) -> list[_Move]:
    """Returns the constants of `plan` and of the bodies in it, each once."""
    moves: dict[int, _Move] = {}
    for each in with_bodies(plan):
        for buffer in each.buffers:
            if buffer.data is not None:
                moves.setdefault(id(buffer.data), _Move(buffer.data)).holders.append(buffer)
    for each in with_bodies(plan):
        for value in each.places:
            if value.data is not None and id(value.data) in moves:
                moves[id(value.data)].holders.append(value)
    return list(moves.values())


def _move(moves: list[_Move], offsets: list[int], file: int, first: int, memory: Array) -> int:
    """Writes the constants to `file`, whose bytes from `first` on are `memory`, and returns the CRC-32 of all.

    Each array is freed as soon as it is written, so that the system can use its memory for the file's next pages. After
    an OSError the plan uses the file's copy of the constants that were written, and the arrays of the others.
    """
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
