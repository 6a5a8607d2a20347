"""A compiled model on its way to disk: its constants are written, and read from there, before its kernels are compiled.

So the memory that compiling takes, and that of packed weights, are not needed at once.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.codegen.cache import open_cache
from weft.codegen.image import (
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
from weft.codegen.residence import shed_heap
from weft.plan.packed import moved
from weft.plan.plan import Plan
from weft.provider import FAMILY

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
        arrays = [buffer.data for buffer in plan.buffers if buffer.data is not None]
        places, total = places_of(arrays)
        with open_cache() as cache:
            begun = None if cache is None or not cache.has_room_for(total) else cache.begin(self._key)
            if cache is None or begun is None:
                return
            self._file, self._partial = begun
            try:
                checksum = _write(self._file, first_constant(total), in_blocks(stretched(arrays)))
                memory = mapped(self._file, first_constant(total), total)
            except OSError as error:
                cache.abandon(self._partial, error)
                self._leave()
                return
        self._constants = total, checksum
        now = [
            memory[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
            for place, array in zip(places, arrays, strict=True)
        ]
        _exchange(plan, arrays, now)
        arrays.clear()
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
                _write(self._file, first_constant(total) + total, (head, code))
                _write(self._file, 0, (MAGIC, digest(self._key, sizes, head, code), sizes))
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


def _write(file: int, at: int, parts: Iterable[bytes | memoryview]) -> int:
    """Write `parts` behind each other from byte `at` on; the CRC-32 of all."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
        rest = memoryview(part)
        while rest:
            count = os.pwrite(file, rest, at)
            at, rest = at + count, rest[count:]
    return checksum


def _exchange(plan: Plan, before: list[Array], now: list[Array]) -> None:
    """Let `plan` hold the arrays `now` in place of `before`, which have the same bits."""
    others = {id(old): new for old, new in zip(before, now, strict=True)}
    for old, new in zip(before, now, strict=True):
        moved(old, new)
    for value in plan.places:
        if value.data is not None:
            value.data = others.get(id(value.data), value.data)
    for buffer in plan.buffers:
        if buffer.data is not None:
            buffer.data = others[id(buffer.data)]
