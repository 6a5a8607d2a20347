"""Artifacts: compiled models on disk (machine code, tasks, packed weights), which run without the model's file.

An artifact is one file:

    magic | SHA-256 of key, sizes, record and code | sizes | ... | constants | record | code

The constants begin at a page boundary (at that of a huge page if they are large); `artifact_writer` writes them before
the kernels are compiled. The record is JSON, the code is the kernels' object files. The record lists the place and the
CRC-32 of every constant. Constants that another artifact of the model has lie in its file only: the record names that
file by its key and its SHA-256. An artifact is not used if any part of it is damaged, or if a file that it names is
missing. Kernels are executed and Python functions unpickled: only the owner of the cache folder can have written them
(see `cache`).
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from treadle import __version__, _native, knobs
from treadle.codegen.artifact_record import Artifact, Resources, artifact_of
from treadle.codegen.build import KernelSet, ObjectCode, link
from treadle.codegen.cache import KernelCache, compiler_version, open_cache
from treadle.plan.target import Target
from treadle.runtime.mapped_images import any_is_cut, map_image

Array = np.ndarray[Any, Any]

MAGIC = b"treadle-model-6\n"
SIZES = struct.Struct("<QQQ")
_HUGE_PAGE, _ALIGNMENT = 2 << 20, 64
_BLOCK = 8 << 20
_IRRELEVANT = (
    "TREADLE_CACHE", "TREADLE_CACHE_MB", "TREADLE_OUT_OF_PROCESS", "TREADLE_PLAN_CACHE", "TREADLE_OUTPUTS_MB",
    "TREADLE_PARALLEL_BACKEND",
)  # fmt: skip
"""Knobs that do not change the compiled form of a model."""


LIVE_RESOURCES: WeakValueDictionary[tuple[str, bytes], Resources] = WeakValueDictionary()
"""The resources of this process's executables by key and SHA-256 of their artifact, so that sessions of one model share
their constants."""
_mapped: WeakValueDictionary[tuple[str, bytes], Array] = WeakValueDictionary()
"""The constants of the files that this process has mapped, by key and SHA-256."""
_MOST_LISTED = 16
"""How many artifacts of a model are searched for constants."""


def artifact_key(content: str, settings: Mapping[str, object], target: Target, library: str | None = None) -> str:
    """Returns the name of the artifact of a model whose bytes hash to `content`, and which `library` reads.

    The name covers everything that the artifact depends on: `settings`, the target, knobs, treadle and its libraries.
    """
    chosen = {name: knobs.get(name) for name in knobs.KNOBS if name not in _IRRELEVANT}
    parts = (content, sorted(settings.items()), target, sorted(chosen.items()), __version__, np.__version__)
    versions = (_source_hash(), compiler_version(), None if library is None else _version_hash(library))
    text = "\n".join(map(repr, (*parts, *versions)))
    return hashlib.sha256(f"model\n{text}".encode()).hexdigest()


@lru_cache(maxsize=1)
def _source_hash() -> str:
    """Hashes the sizes and dates of treadle's files."""
    total = hashlib.sha256()
    core = Path(_native.__file__).stat()
    total.update(f"{core.st_size} {core.st_mtime_ns}\n".encode())
    waiting = [str(Path(__file__).parent.parent)]
    while waiting:
        for entry in sorted(os.scandir(waiting.pop()), key=lambda one: one.name):
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                total.update(f"{entry.path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return total.hexdigest()


@lru_cache(maxsize=4)
def _version_hash(library: str) -> str | None:
    """Hashes the version of a library, which it does not import; None if it is not installed."""
    found = find_spec(library)
    if found is None or found.origin is None:
        return None
    return hashlib.sha256(Path(found.origin).with_name("version.py").read_bytes()).hexdigest()


class Start(NamedTuple):
    """What the first bytes of an artifact say: its SHA-256, and how many bytes its other parts have."""

    digest: bytes
    record_bytes: int
    code_bytes: int
    constant_bytes: int

    @classmethod
    def of(cls, file: int) -> Start | None:
        """Returns the start of the artifact `file`; None if it has none, or if the file has another size."""
        fixed = len(MAGIC) + hashlib.sha256().digest_size
        content = os.pread(file, fixed + SIZES.size, 0)
        if len(content) < fixed + SIZES.size or not content.startswith(MAGIC):
            return None
        start = cls(content[len(MAGIC) : fixed], *SIZES.unpack(content[fixed:]))
        whole = start.constants_end + start.record_bytes + start.code_bytes
        return start if os.fstat(file).st_size == whole else None

    @property
    def constants_end(self) -> int:
        """The file offset behind the constants, where the record begins."""
        return constants_offset(self.constant_bytes) + self.constant_bytes

    def record_and_code(self, key: str, file: int) -> tuple[dict[str, Any], bytes] | None:
        """Reads the record and the code of the artifact `key`; None if they are damaged."""
        content = os.pread(file, self.record_bytes + self.code_bytes, self.constants_end)
        record, code = content[: self.record_bytes], content[self.record_bytes :]
        if digest(key, SIZES.pack(*self[1:]), record, code) != self.digest:
            return None
        return json.loads(record), code

    def map_constants(self, key: str, file: int) -> Array:
        """Maps the constants of the artifact `key`, which this process may have mapped before."""
        memory = _mapped.get((key, self.digest))
        if memory is None or any_is_cut([memory]):
            memory = map_image(file, constants_offset(self.constant_bytes), self.constant_bytes)
            note_mapped(key, self.digest, memory)
        return memory


def note_mapped(key: str, sha: bytes, memory: Array) -> None:
    """Lets artifacts use `memory` as the constants of the artifact `key`."""
    _mapped[key, sha] = memory


def load_artifact(key: str, target: Target) -> Artifact | None:
    """Loads the artifact `key`; None if there is none, or if its file is damaged."""
    with open_cache() as cache, _opened(cache, key) as file:
        if cache is None or file is None:
            return None
        try:
            return _read(cache, key, file, target)
        except (OSError, EOFError):
            return None


@contextmanager
def _opened(cache: KernelCache | None, key: str) -> Iterator[int | None]:
    """Opens the file `key` of the cache; yields None without one."""
    file = None if cache is None else cache.open(key)
    try:
        yield file
    finally:
        if file is not None:
            os.close(file)


def _read(cache: KernelCache, key: str, file: int, target: Target) -> Artifact | None:
    start = Start.of(file)
    found = None if start is None else start.record_and_code(key, file)
    if start is None or found is None:
        return None
    record, code = found
    kernels, addresses = _kernels(record, code, target)
    resources = LIVE_RESOURCES.get((key, start.digest))
    if resources is None or any_is_cut(resources.arrays):
        memories = [start.map_constants(key, file)]
        for other, sha in record["files"]:
            memory = _constants_of(cache, other, bytes.fromhex(sha))
            if memory is None:
                return None
            memories.append(memory)
        arrays: list[Array] = []
        for number, offset, size, checksum in record["constants"]:
            memory = memories[number]
            if zlib.crc32(memory[offset : offset + _padded_size(size)].data) != checksum:
                return None
            arrays.append(memory[offset : offset + size])
        resources = LIVE_RESOURCES[key, start.digest] = Resources(kernels, arrays)
    return artifact_of(record, addresses, resources, target)


def _constants_of(cache: KernelCache, key: str, sha: bytes) -> Array | None:
    """Returns the constants of the artifact `key`; None if there is none with the SHA-256 `sha`."""
    with _opened(cache, key) as file:
        start = None if file is None else Start.of(file)
        if file is None or start is None or start.digest != sha:
            return None
        return start.map_constants(key, file)


class StoredConstant(NamedTuple):
    """A constant in the file of an artifact."""

    key: str
    sha: bytes
    offset: int
    checksum: int
    array: Array


def stored_constants(cache: KernelCache, content: str, replaced: str) -> Iterator[StoredConstant]:
    """Yields the constants in the files of the artifacts of a model whose bytes hash to `content`.

    The elements of the arrays may be damaged. Leaves out artifacts that need the artifact `replaced`, which is about to
    be written, or one that is missing: so artifacts never need each other.
    """
    whole = _Whole(cache, replaced)
    for key in _listed(cache, content):
        found = whole.read(key)
        if found is None:
            continue
        for number, offset, size, checksum in found.constants:
            if number == 0:
                array = found.memory[offset : offset + size]
                yield StoredConstant(key, found.sha, offset, checksum, array)


class _Stored(NamedTuple):
    """What an artifact says of constants, and those in its own file."""

    sha: bytes
    constants: Sequence[tuple[int, int, int, int]]
    memory: Array


class _Whole:
    """Reads artifacts other than `replaced` that have all files that they need, directly or through others."""

    def __init__(self, cache: KernelCache, replaced: str) -> None:
        self._cache = cache
        self._known: dict[str, _Stored | None] = {replaced: None}

    def read(self, key: str) -> _Stored | None:
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: str) -> _Stored | None:
        with _opened(self._cache, key) as file:
            start = None if file is None else Start.of(file)
            found = None if file is None or start is None else start.record_and_code(key, file)
            if file is None or start is None or found is None:
                return None
            for other, sha in found[0]["files"]:
                needed = self.read(other)
                if needed is None or needed.sha.hex() != sha:
                    return None
            return _Stored(start.digest, found[0]["constants"], start.map_constants(key, file))


def list_artifact(cache: KernelCache, content: str, key: str) -> None:
    """Lets `stored_constants` find the constants of the artifact `key`."""
    listed = [one for one in _listed(cache, content) if one != key]
    cache.store(_list_key(content), json.dumps([*listed, key][-_MOST_LISTED:]).encode())


def _listed(cache: KernelCache, content: str) -> list[str]:
    """Returns the keys of the artifacts of a model, the newest last. They may be gone."""
    found = cache.load(_list_key(content))
    return [] if found is None else list(json.loads(found))


def _list_key(content: str) -> str:
    return hashlib.sha256(f"artifacts\n{content}".encode()).hexdigest()


def _kernels(record: dict[str, Any], code: bytes, target: Target) -> tuple[KernelSet, list[int]]:
    """Links the kernels of a record; returns them and their addresses."""
    objects, at = [], 0
    for spec, symbol, size in record["kernels"]:
        objects.append(ObjectCode(spec, symbol, code[at : at + size]))
        at += size
    libraries = link(objects, [one.spec for one in objects], target)
    kernels = KernelSet({}, tuple(objects), libraries=tuple(dict.fromkeys(libraries.values())))
    return kernels, [libraries[one.spec].addresses[one.spec] for one in objects]


def digest(key: str, *parts: bytes) -> bytes:
    """Returns the SHA-256 of `key` and `parts`. The key is included, so that a renamed file is not accepted."""
    total = hashlib.sha256(key.encode())
    for part in parts:
        total.update(part)
    return total.digest()


def checksum_of(array: Array) -> int:
    """Returns the CRC-32 of an array with the padding that follows it in a file."""
    return zlib.crc32(bytes(-array.nbytes % _ALIGNMENT), zlib.crc32(array.reshape(-1).view(np.uint8).data))


def _padded_size(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def offsets_of(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """Returns the offset of each array when they are stored one after another, aligned, and the size of the whole."""
    offsets, end = [], 0
    for array in arrays:
        offsets.append(end)
        end += _padded_size(array.nbytes)
    return offsets, end


def padded(arrays: Iterable[Array]) -> Iterator[bytes | memoryview]:
    """Yields the bytes of `arrays`, each followed by the padding that `offsets_of` assumes."""
    for array in arrays:
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNMENT)


def constants_offset(total: int) -> int:
    """Returns the file offset of `total` bytes of constants: a page boundary, that of a huge page if they fill one."""
    return _HUGE_PAGE if total >= _HUGE_PAGE else mmap.ALLOCATIONGRANULARITY


def in_blocks(parts: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    """Joins `parts` and yields blocks of several huge pages each, so that file systems can use huge pages."""
    block, filled = np.empty(_BLOCK, np.uint8).data, 0  # not cleared, as most artifacts are far smaller than a block
    for part in parts:
        rest = memoryview(part)
        while rest:
            if filled == 0 and len(rest) >= _BLOCK:
                yield rest[:_BLOCK]
                rest = rest[_BLOCK:]
                continue
            count = min(len(rest), _BLOCK - filled)
            block[filled : filled + count] = rest[:count]
            filled, rest = filled + count, rest[count:]
            if filled == _BLOCK:
                yield block
                filled = 0
    yield block[:filled]
