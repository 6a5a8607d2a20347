"""Artifacts: compiled models on disk (machine code, tasks, packed weights), which run without the model's file.

An artifact is one file:

    magic | SHA-256 of key, sizes, record and code | sizes | CRC-32 of the constants | ... | constants | record | code

The constants begin at a page boundary (at that of a huge page if they are large); `artifact_writer` writes them before
the kernels are compiled. The record is JSON, the code is the kernels' object files. A file with any damaged part is not
used. Kernels are executed and Python functions unpickled: only the owner of the cache folder can have written them
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
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from treadle import __version__, _native, knobs
from treadle.codegen.artifact_record import Artifact, Resources, artifact_of
from treadle.codegen.build import KernelSet, ObjectCode, link
from treadle.codegen.cache import compiler_version, open_cache
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

MAGIC = b"treadle-model-4\n"
SIZES = struct.Struct("<QQQI")
_HUGE_PAGE, _ALIGNMENT = 2 << 20, 64
_BLOCK = 8 << 20
_IRRELEVANT = (
    "TREADLE_CACHE", "TREADLE_CACHE_MB", "TREADLE_OUT_OF_PROCESS", "TREADLE_PLAN_CACHE", "TREADLE_OUTPUTS_MB",
    "TREADLE_PARALLEL_BACKEND",
)  # fmt: skip
"""Knobs that do not change the compiled form of a model."""


LIVE_RESOURCES: WeakValueDictionary[str, Resources] = WeakValueDictionary()
"""The resources of this process's executables by key, so that sessions of one model share their constants."""


def artifact_key(content: str, settings: Mapping[str, object], target: Target) -> str:
    """Returns the name of the artifact of a model whose bytes hash to `content`.

    The name covers everything that the artifact depends on: `settings`, the target, knobs, treadle and its libraries.
    """
    chosen = {name: knobs.get(name) for name in knobs.KNOBS if name not in _IRRELEVANT}
    parts = (content, sorted(settings.items()), target, sorted(chosen.items()), __version__, np.__version__)
    text = "\n".join(map(repr, (*parts, _source_hash(), compiler_version())))
    return hashlib.sha256(f"model\n{text}".encode()).hexdigest()


@lru_cache(maxsize=1)
def _source_hash() -> str:
    """Hashes the sizes and dates of treadle's files and the version of onnx."""
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
    onnx = find_spec("onnx")
    if onnx is not None and onnx.origin is not None:
        total.update(Path(onnx.origin).with_name("version.py").read_bytes())
    return total.hexdigest()


def load_artifact(key: str, target: Target) -> Artifact | None:
    """Loads the artifact `key`; None if there is none, or if its file is damaged."""
    with open_cache() as cache:
        file = None if cache is None else cache.open(key)
        if file is None:
            return None
        try:
            return _read(key, file, target)
        except (OSError, EOFError):
            return None
        finally:
            os.close(file)


def _read(key: str, file: int, target: Target) -> Artifact | None:
    fixed = len(MAGIC) + hashlib.sha256().digest_size
    start = os.pread(file, fixed + SIZES.size, 0)
    if len(start) < fixed + SIZES.size or not start.startswith(MAGIC):
        return None
    sizes = start[fixed:]
    head_bytes, code_bytes, total, checksum = SIZES.unpack(sizes)
    first = constants_offset(total)
    if os.fstat(file).st_size != first + total + head_bytes + code_bytes:
        return None
    rest = os.pread(file, head_bytes + code_bytes, first + total)
    head, code = rest[:head_bytes], rest[head_bytes:]
    if digest(key, sizes, head, code) != start[len(MAGIC) : fixed]:
        return None
    record = json.loads(head)
    kernels, addresses = _kernels(record, code, target)
    resources = LIVE_RESOURCES.get(key)
    if resources is None:
        memory = map_file(file, first, total)
        if zlib.crc32(memory.data) != checksum:
            return None
        arrays = [memory[offset : offset + size] for offset, size in record["constants"]]
        resources = LIVE_RESOURCES[key] = Resources(kernels, arrays)
    return artifact_of(record, addresses, resources, target)


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


def offsets_of(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """Returns the offset of each array when they are stored one after another, aligned, and the size of the whole."""
    offsets, end = [], 0
    for array in arrays:
        offsets.append(end)
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def padded(arrays: Iterable[Array]) -> Iterator[bytes | memoryview]:
    """Yields the bytes of `arrays`, each followed by the padding that `offsets_of` assumes."""
    for array in arrays:
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNMENT)


def constants_offset(total: int) -> int:
    """Returns the file offset of `total` bytes of constants: a page boundary, that of a huge page if they fill one."""
    return _HUGE_PAGE if total >= _HUGE_PAGE else mmap.ALLOCATIONGRANULARITY


def map_file(file: int, first: int, size: int) -> Array:
    """Maps `size` bytes of the file from offset `first`, a multiple of the page size. Processes share the pages.

    Files of the cache folder are never modified, and a file that is removed stays readable where it is mapped.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    memory = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ, offset=first)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def in_blocks(parts: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    """Joins `parts` and yields blocks of several huge pages each, so that file systems can use huge pages."""
    block, filled = bytearray(_BLOCK), 0
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
                yield memoryview(block)
                filled = 0
    yield memoryview(block)[:filled]
