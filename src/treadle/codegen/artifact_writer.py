"""Writes an artifact while its model is compiled. Constants are written first and from then on read from the file.

So a compile does not need memory for packed weights and memory for LLVM at the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from treadle.codegen.artifact import (
    LIVE_RESOURCES,
    MAGIC,
    SIZES,
    StoredConstant,
    checksum_of,
    constants_offset,
    digest,
    in_blocks,
    list_artifact,
    note_mapped,
    offsets_of,
    padded,
    stored_constants,
)
from treadle.codegen.artifact_record import Artifact, Resources, address_of, record_of
from treadle.codegen.build import KernelSet
from treadle.codegen.cache import open_cache
from treadle.codegen.resident_memory import release_heap
from treadle.graph.value import Value
from treadle.plan.call import Call
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.packed import SMALLEST, moved, same_bits
from treadle.plan.plan import Buffer, Plan, with_bodies
from treadle.records import dataclass
from treadle.runtime.mapped_images import map_image
from treadle.runtime.python_step import is_storable

Array = np.ndarray[Any, Any]


class ArtifactWriter:
    """The unfinished file of the artifact `key`. The user must close it, also after an error."""

    def __init__(self, key: str, content: str) -> None:
        """Make a writer for a model whose bytes hash to `content`."""
        self._key = key
        self._content = content
        self._file: int | None = None
        self._partial = ""
        self._memory = np.empty(0, np.uint8)
        """The constants in the file."""
        self._places: dict[int, _Place] = {}
        """Where constants lie, by their addresses."""

    def move_constants(self, plan: Plan) -> None:
        """Writes the constants of `plan` to the file and makes the plan use the file's copy.

        Constants that another artifact of the model has are not written: the plan uses those.

        Does nothing for a plan that cannot become an artifact: one that calls a provider or Python functions that have
        no form on disk, or whose constants take too large a part of the cache folder.
        """
        if self._file is not None or not all(_has_form(call) for each in with_bodies(plan) for call in each.calls):
            return
        moves = _moves(plan)
        with open_cache() as cache:
            begun = None if cache is None else cache.begin(self._key)
            if cache is None or begun is None:
                return
            self._file, self._partial = begun
            try:
                moves = self._share(moves, stored_constants(cache, self._content, self._key))
                offsets, total = offsets_of([one.array for one in moves])
                if not cache.has_room_for(total):
                    cache.abandon(self._partial)
                    self._close_file()
                    return
                first = constants_offset(total)
                os.ftruncate(self._file, first + total)
                self._memory = map_image(self._file, first, total)
                for move, place in _move(moves, offsets, self._file, first, self._memory):
                    self._places[address_of(move.array)] = place
            except OSError as error:
                cache.abandon(self._partial, error)
                self._close_file()
        release_heap()

    def _share(self, moves: list[_Move], stored: Iterable[StoredConstant]) -> list[_Move]:
        """Makes the plans use `stored` constants that are equal to theirs; returns the moves that are left."""
        known: dict[tuple[int, int], StoredConstant] = {}
        for constant in stored:
            if constant.array.nbytes >= SMALLEST:
                known.setdefault((constant.array.nbytes, constant.checksum), constant)
        left: list[_Move] = []
        for move in moves:
            found = known.get((move.array.nbytes, move.checksum)) if known else None
            if found is None or not same_bits(found.array, move.array):
                left.append(move)
                continue
            move.replace(found.array)
            self._places[address_of(move.array)] = _Place(found.offset, found.checksum, (found.key, found.sha.hex()))
        return left

    def store(self, artifact: Artifact) -> None:
        """Writes the rest of `artifact` and stores the file in the cache, if the constants were written before.

        An artifact without a program has none.
        """
        resources: object = Resources(KernelSet({}), [])
        if artifact.program is not None:
            resources = artifact.program.layout.kept
        else:
            self._begin()
        if not isinstance(resources, Resources) or self._file is None:
            return
        record = record_of(artifact, resources)
        if record is None:
            return
        places = [self._places[address_of(array)] for array in resources.arrays]
        files = list(dict.fromkeys(place.file for place in places if place.file is not None))
        record["files"] = files
        record["constants"] = [
            (0 if place.file is None else 1 + files.index(place.file), place.offset, array.nbytes, place.checksum)
            for array, place in zip(resources.arrays, places, strict=True)
        ]
        head = json.dumps(record, separators=(",", ":")).encode()
        code = b"".join(one.content for one in resources.kernels.objects)
        total = self._memory.nbytes
        sizes = SIZES.pack(len(head), len(code), total)
        sha = digest(self._key, sizes, head, code)
        with open_cache() as cache:
            if cache is None:
                return
            try:
                _write(self._file, constants_offset(total) + total, head + code)
                _write(self._file, 0, MAGIC + sha + sizes)
            except OSError as error:
                cache.abandon(self._partial, error)
            else:
                cache.finish(self._partial, self._key)
                LIVE_RESOURCES[self._key, sha] = resources
                note_mapped(self._key, sha, self._memory)
                if total >= SMALLEST:
                    list_artifact(cache, self._content, self._key)
        self._close_file()

    def _begin(self) -> None:
        """Make the file of an artifact without constants."""
        with open_cache() as cache:
            begun = None if cache is None else cache.begin(self._key)
            if begun is not None:
                self._file, self._partial = begun

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


class _Place(NamedTuple):
    """Where a constant lies: the offset among the constants of a file, and its CRC-32 there.

    `file` is the key and the SHA-256 of another artifact; None: the file that is written.
    """

    offset: int
    checksum: int
    file: tuple[str, str] | None = None


@dataclass(slots=True)
class _Move:
    """A constant to be written to the file, and what refers to it."""

    array: Array
    holders: list[Buffer | Value] = field(default_factory=list)

    @property
    def checksum(self) -> int:
        """Its CRC-32 in a file."""
        return checksum_of(self.array)

    def replace(self, content: Array) -> None:
        """Makes the plans use `content`, equal bytes, so that the array can be freed."""
        array = self.array
        copy = content.view(array.dtype).reshape(array.shape)
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


def _move(
    moves: list[_Move], offsets: list[int], file: int, first: int, memory: Array
) -> Iterator[tuple[_Move, _Place]]:
    """Writes the constants to `file`, whose bytes from `first` on are `memory`; yields each when it is written.

    Each array is freed as soon as it is written, so that the system can use its memory for the file's next pages. After
    an OSError the plan uses the file's copy of the constants that were written, and the arrays of the others.
    """
    written = done = 0
    for block in in_blocks(padded(one.array for one in moves)):
        _write(file, first + written, block)
        written += len(block)
        while done < len(moves) and offsets[done] + moves[done].array.nbytes <= written:
            move, offset = moves[done], offsets[done]
            place = _Place(offset, move.checksum)
            move.replace(memory[offset : offset + move.array.nbytes])
            yield move, place
            done += 1


def _write(file: int, offset: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        count = os.pwrite(file, rest, offset)
        offset, rest = offset + count, rest[count:]
