"""Compiled models kept on disk: machine code, tasks and packed weights, ready to run without the model's file.

A file holds a header, the constants from the next page on, a huge one if they are large, a JSON record, and the kernels'
object code. The constants are written before there is any code (`draft`):

    magic | SHA-256 of key, sizes, record and code | sizes | CRC-32 of the constants | ... | constants | record | code

What is amiss in any part means that the file is not used. Nothing in it is evaluated but the kernels, which the folder's
owner alone can have put there (`cache`).
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
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from treadle import __version__, _native, dtypes, knobs
from treadle.codegen.build import KernelSet, ObjectCode, link
from treadle.codegen.cache import compiler_version, open_cache
from treadle.plan.status import MESSAGES
from treadle.plan.target import Target
from treadle.runtime.executable import Executable, Form, Layout, Step
from treadle.runtime.signature import Signature, Tensor
from treadle.tracing.registry import StepLabel

Array = np.ndarray[Any, Any]

MAGIC = b"treadle-model-2\n"
SIZES = struct.Struct("<QQQI")
_HUGE_PAGE, _ALIGNMENT = 2 << 20, 64
_BLOCK = 8 << 20
_IRRELEVANT = (
    "TREADLE_CACHE", "TREADLE_CACHE_MB", "TREADLE_OUT_OF_PROCESS", "TREADLE_PLAN_CACHE", "TREADLE_OUTPUTS_MB", "TREADLE_PARALLEL_BACKEND",
)  # fmt: skip
"""Knobs that do not change what a model is compiled to."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Held:
    """What an executable holds on to: its kernels, and the constants in the order of its buffers."""

    kernels: KernelSet
    arrays: Sequence[Array]

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes of constants and of machine code."""
        return sum(array.nbytes for array in self.arrays), sum(len(one.content) for one in self.kernels.objects)


ALIVE: WeakValueDictionary[str, Held] = WeakValueDictionary()
"""What executables of this process hold, by key: sessions of one model share their constants."""


def image_key(content: str, settings: Mapping[str, object], target: Target) -> str:
    """The name of the compiled form of a model whose bytes hash to `content`.

    It changes with everything that the form depends on: `settings`, the target, knobs, treadle itself and its libraries.
    """
    chosen = {name: knobs.get(name) for name in knobs.KNOBS if name not in _IRRELEVANT}
    parts = (content, sorted(settings.items()), target, sorted(chosen.items()), __version__, np.__version__)
    text = "\n".join(map(repr, (*parts, _sources(), compiler_version())))
    return hashlib.sha256(f"model\n{text}".encode()).hexdigest()


@lru_cache(maxsize=1)
def _sources() -> str:
    """A hash that changes when a file of treadle, or the version of onnx, is another one."""
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


class Image(NamedTuple):
    """A compiled model: what its session takes and gives, what computes it, and the names of its nodes."""

    signature: Signature
    executable: Executable
    nodes: tuple[str, ...]


def record_of(image: Image, kernels: KernelSet, places: Sequence[int]) -> dict[str, Any] | None:
    """Everything but code and constants; None if a step is no kernel of `kernels`."""
    signature, layout = image.signature, image.executable.layout
    numbers: dict[object, int] = {address: number for number, address in enumerate(kernels.addresses.values())}
    if any(step.body not in numbers for step in layout.steps):
        return None
    place = iter(places)
    buffers = [(kind, next(place) if kind == "constant" else value) for kind, value in layout.buffers]
    sizes = [array.nbytes for array in layout.kept.arrays] if isinstance(layout.kept, Held) else []
    return {
        "inputs": [(one.name, _name(one.dtype), one.shape) for one in signature.inputs],
        "outputs": [(one.name, _name(one.dtype), one.shape) for one in signature.outputs],
        "results": [(_name(form.dtype), form.shape) for form in layout.outputs],
        "kernels": [(one.spec, one.symbol, len(one.content)) for one in kernels.objects],
        "steps": [
            (numbers[step.body], step.pointers, step.args, step.chunks, step.cost, dict(step.caps))
            for step in layout.steps
        ],
        "labels": [(label.node, label.op) for label in layout.labels],
        "nodes": image.nodes,
        "tasks": list(layout.tasks),
        "successors": list(layout.successors),
        "buffers": buffers,
        "sizes": sizes,
        "arena": layout.arena_bytes,
        "scratch": layout.scratch_bytes,
    }


def find(key: str, target: Target) -> Image | None:
    """What is kept under `key`; None if there is nothing, or not as it was written."""
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


def _read(key: str, file: int, target: Target) -> Image | None:
    fixed = len(MAGIC) + hashlib.sha256().digest_size
    start = os.pread(file, fixed + SIZES.size, 0)
    if len(start) < fixed + SIZES.size or not start.startswith(MAGIC):
        return None
    sizes = start[fixed:]
    head_bytes, code_bytes, total, checksum = SIZES.unpack(sizes)
    first = first_constant(total)
    if os.fstat(file).st_size != first + total + head_bytes + code_bytes:
        return None
    rest = os.pread(file, head_bytes + code_bytes, first + total)
    head, code = rest[:head_bytes], rest[head_bytes:]
    if digest(key, sizes, head, code) != start[len(MAGIC) : fixed]:
        return None
    record = json.loads(head)
    kernels, addresses = _kernels(record, code, target)
    held = ALIVE.get(key)
    if held is None:
        memory = mapped(file, first, total)
        if zlib.crc32(memory.data) != checksum:
            return None
        places = [value for kind, value in record["buffers"] if kind == "constant"]
        arrays = [memory[place : place + size] for place, size in zip(places, record["sizes"], strict=True)]
        held = ALIVE[key] = Held(kernels, arrays)
    return _restored(record, addresses, held, target)


def _kernels(record: dict[str, Any], code: bytes, target: Target) -> tuple[KernelSet, list[int]]:
    """The kernels of a record, linked, and the address of each."""
    objects, at = [], 0
    for spec, symbol, size in record["kernels"]:
        objects.append(ObjectCode(spec, symbol, code[at : at + size]))
        at += size
    libraries = link(objects, [one.spec for one in objects], target)
    kernels = KernelSet({}, tuple(objects), libraries=tuple(dict.fromkeys(libraries.values())))
    return kernels, [libraries[one.spec].addresses[one.spec] for one in objects]


def _restored(record: dict[str, Any], addresses: Sequence[int], held: Held, target: Target) -> Image:
    constants = iter(held.arrays)
    layout = Layout(
        steps=[
            Step(addresses[number], [(buffer, offset) for buffer, offset in pointers], args, chunks, cost, caps)
            for number, pointers, args, chunks, cost, caps in record["steps"]
        ],
        labels=[StepLabel(node, op) for node, op in record["labels"]],
        tasks=[(first, count, priority, blocking) for first, count, priority, blocking in record["tasks"]],
        successors=record["successors"],
        buffers=[
            (kind, _address(next(constants)) if kind == "constant" else value) for kind, value in record["buffers"]
        ],
        arena_bytes=record["arena"],
        scratch_bytes=record["scratch"],
        outputs=[Form(tuple(shape), _dtype(name)) for name, shape in record["results"]],
        reasons=MESSAGES,
        isa=target.isa,
        kept=held,
    )
    inputs, outputs = (
        tuple(Tensor(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in record[side])
        for side in ("inputs", "outputs")
    )
    return Image(Signature(inputs, outputs), Executable(layout), tuple(record["nodes"]))


def digest(key: str, *parts: bytes) -> bytes:
    """SHA-256 of `parts` as they are kept under `key`: a file under another name is not taken for it."""
    total = hashlib.sha256(key.encode())
    for part in parts:
        total.update(part)
    return total.digest()


def places_of(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """Where each array begins when they lie behind each other, and the bytes of all."""
    places, end = [], 0
    for array in arrays:
        places.append(end)
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return places, end


def stretched(arrays: Iterable[Array]) -> Iterator[bytes | memoryview]:
    """The bytes of `arrays`, each up to the place of the next."""
    for array in arrays:
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNMENT)


def first_constant(total: int) -> int:
    """Where `total` bytes of constants begin: at a page, a huge one if they fill any."""
    return _HUGE_PAGE if total >= _HUGE_PAGE else mmap.ALLOCATIONGRANULARITY


def mapped(file: int, first: int, size: int) -> Array:
    """The `size` bytes from `first` on, a multiple of the page size, left in the file: processes share its pages.

    Files here are never written again, and removing one leaves those that use it what they have.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    memory = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ, offset=first)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def in_blocks(parts: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    """`parts` behind each other, cut into blocks: written so, they lie in huge pages where the file system has any."""
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


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _name(dtype: np.dtype[Any] | None) -> str | None:
    return None if dtype is None else dtypes.from_numpy(dtype).name


def _dtype(name: str) -> np.dtype[Any]:
    return dtypes.BY_NAME[name].numpy
