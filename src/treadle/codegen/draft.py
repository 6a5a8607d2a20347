"""A compiled model on its way to disk: its constants are written, and read from there, before its kernels are compiled.

So the memory that compiling takes, and that of packed weights, are not needed at once.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.codegen.cache import open_cache
from treadle.codegen.image import (
    ALIVE,
    MAGIC,
    SIZES,
    Held,
    Image,
    digest,
    first_constant,
    in_blocks,
    mapped,
    places_of,
    record_of,
    stretched,
)
from treadle.codegen.residence import shed_heap
from treadle.graph.value import Value
from treadle.plan.packed import moved
from treadle.plan.plan import Buffer, Plan
from treadle.provider import FAMILY

Array = np.ndarray[Any, Any]


class Draft:
    """The file of one compiled model while it is made; `key` is its name. To be closed, whatever happens."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._file: int | None = None
        self._partial = ""
        self._constants = (0, 0)
        """Bytes and CRC-32."""

    def move_constants(self, plan: Plan) -> None:
        """Write the constants of `plan`, and let it read them from the file.

        Nothing happens where no file would be kept: if the plan calls Python or a library, or takes too much of the folder.
        """
        if self._file is not None or any(call.spec is None or call.spec.family == FAMILY for call in plan.calls):
            return
        moves = _moves(plan)
        places, total = places_of([one.array for one in moves])
        with open_cache() as cache:
            begun = None if cache is None or not cache.has_room_for(total) else cache.begin(self._key)
            if cache is None or begun is None:
                return
            self._file, self._partial = begun
            try:
                self._constants = total, _move(moves, places, self._file, first_constant(total), total)
            except OSError as error:
                cache.abandon(self._partial, error)
                self._leave()
        shed_heap()

    def keep(self, image: Image) -> None:
        """Complete the file with everything else and keep it; not if its constants were not moved."""
        layout = image.executable.layout
        if not isinstance(layout.kept, Held):
            return
        ALIVE[self._key] = layout.kept
        if self._file is None:
            return
        kernels = layout.kept.kernels
        record = record_of(image, kernels, places_of(layout.kept.arrays)[0])
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
                _write(self._file, first_constant(total) + total, head + code)
                _write(self._file, 0, MAGIC + digest(self._key, sizes, head, code) + sizes)
            except OSError as error:
                cache.abandon(self._partial, error)
            else:
                cache.finish(self._partial, self._key)
        self._leave()

    def close(self) -> None:
        """Remove the file if it was not kept; plans that read constants from it go on doing so."""
        if self._file is None:
            return
        with open_cache() as cache:
            if cache is not None:
                cache.abandon(self._partial)
        self._leave()

    def _leave(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@dataclass(slots=True)
class _Move:
    """A constant of a plan on its way to the file: its buffer, and the values that are that array."""

    buffer: Buffer
    values: list[Value]

    @property
    def array(self) -> Array:
        assert self.buffer.data is not None
        return self.buffer.data

    def end_in(self, memory: Array, place: int) -> None:
        """Let the plan hold the copy that lies at `place` in `memory`; the array may go."""
        before = self.array
        now = memory[place : place + before.nbytes].view(before.dtype).reshape(before.shape)
        moved(before, now)
        self.buffer.data = now
        for value in self.values:
            value.data = now


def _moves(plan: Plan) -> list[_Move]:
    values: dict[int, list[Value]] = {}
    for value in plan.places:
        if value.data is not None:
            values.setdefault(id(value.data), []).append(value)
    return [_Move(one, values.get(id(one.data), [])) for one in plan.buffers if one.data is not None]


def _move(moves: list[_Move], places: list[int], file: int, first: int, total: int) -> int:
    """Write all to `file` from byte `first` on, and let each go as soon as it is there; the CRC-32 of all.

    So what one leaves is at once the system's memory for the file's next pages. After an OSError those that were
    written are read from the file, and the others are where they were.
    """
    os.ftruncate(file, first + total)
    memory = mapped(file, first, total)
    checksum = written = done = 0
    for block in in_blocks(stretched(one.array for one in moves)):
        _write(file, first + written, block)
        checksum = zlib.crc32(block, checksum)
        written += len(block)
        while done < len(moves) and places[done] + moves[done].array.nbytes <= written:
            moves[done].end_in(memory, places[done])
            done += 1
    return checksum


def _write(file: int, at: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        count = os.pwrite(file, rest, at)
        at, rest = at + count, rest[count:]
