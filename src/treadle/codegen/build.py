"""Kernel specs to linked machine code: shared with this process's other plans, else loaded from disk, else compiled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import NamedTuple
from weakref import WeakValueDictionary

from treadle import forking
from treadle.codegen.cache import kernel_key, open_cache
from treadle.codegen.link import LinkedCode, LinkError
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target
from treadle.records import dataclass

Progress = Callable[[int, int], None]


class ObjectCode(NamedTuple):
    """A compiled kernel: the text of its spec, the name of its function, and its object file."""

    spec: str
    symbol: str
    content: bytes


class Library:
    """Kernels linked into this process. Their addresses, by text of their specs, are valid as long as the library."""

    def __init__(self, objects: Sequence[ObjectCode]) -> None:
        named = [(one.symbol, one.content) for one in objects]
        try:
            self._code: object = (linked := LinkedCode(named))
            addresses = linked.addresses
        except LinkError:
            from treadle.codegen.jit import LlvmLinkedCode

            self._code = (linked_by_llvm := LlvmLinkedCode(named))
            addresses = linked_by_llvm.addresses
        self.addresses = {one.spec: addresses[one.symbol] for one in objects}
        self.objects = {one.spec: one for one in objects}


_lock = forking.lock()
_linked: WeakValueDictionary[tuple[str, Target], Library] = WeakValueDictionary()
"""The library of this process that holds a kernel, while an executable uses that library or it is recent."""
_recent: deque[Library] = deque(maxlen=256)
"""The libraries made last, which may be unused. LLVM frees a library's code but not all of its tables, so linking a
kernel again would leak memory in a process that makes and drops sessions of one model."""


_RELEASE_AFTER = 4
"""The number of compiled kernels from which on LLVM's memory is released. Paging it in again takes 8 ms."""


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels of one plan. Their addresses are valid as long as the set lives.

    `compiled`, `loaded` and `shared` count the kernels that were compiled, that were read from disk, and that this
    process had linked before.
    """

    addresses: dict[KernelSpec, int]
    objects: tuple[ObjectCode, ...] = field(default=(), repr=False)
    compiled: int = 0
    loaded: int = 0
    shared: int = 0
    libraries: tuple[Library, ...] = field(default=(), repr=False)


def build_kernels(specs: Iterable[KernelSpec], target: Target, progress: Progress | None = None) -> KernelSet:
    """Returns the kernels of `specs` (which may repeat), linked for `target`. Thread-safe.

    `progress(done, total)` is called after each kernel that is compiled. Raises InternalError if a generator fails.
    """
    texts = [(spec, str(spec)) for spec in specs]
    unique = {text: spec for spec, text in texts}
    with _lock:
        libraries = link([], unique, target)
        missing = {text: spec for text, spec in unique.items() if text not in libraries}
        objects, compiled = _load_or_compile(list(missing.values()), target, progress) if missing else ([], 0)
        libraries |= link(objects, missing, target)
    return KernelSet(
        addresses={
            spec: libraries[text].addresses[text] for spec, text in texts
        },  # looked up by text: a spec that holds a NaN is not equal to its copies
        objects=tuple(libraries[text].objects[text] for text in unique),
        compiled=compiled,
        loaded=len(missing) - compiled,
        shared=len(unique) - len(missing),
        libraries=tuple(dict.fromkeys(libraries.values())),
    )


def link(objects: Sequence[ObjectCode], specs: Iterable[str], target: Target) -> dict[str, Library]:
    """Returns the library that holds each kernel of `specs` (texts of specs), as far as this process has linked it.

    First links those of `objects` that this process has not linked yet. Thread-safe.
    """
    with _lock:
        libraries = {text: library for text in specs if (library := _linked.get((text, target))) is not None}
        unlinked = [one for one in objects if one.spec not in libraries]
        if unlinked:
            library = Library(unlinked)
            _recent.append(library)
            for one in unlinked:
                libraries[one.spec] = _linked[one.spec, target] = library
    return libraries


def _load_or_compile(
    specs: list[KernelSpec], target: Target, progress: Progress | None
) -> tuple[list[ObjectCode], int]:
    """Returns the object code of `specs`, and how many of them were compiled."""
    with open_cache() as cache:
        keys = [kernel_key(spec, target) for spec in specs]
        codes = [cache.load(key) if cache is not None else None for key in keys]
        missing = [index for index, code in enumerate(codes) if code is None]
        if missing:
            from treadle.codegen import jit
            from treadle.codegen.compiler import compile_kernels

            def store(number: int, code: bytes) -> None:
                codes[missing[number]] = code
                if cache is not None:
                    cache.store(keys[missing[number]], code)
                if progress is not None:
                    progress(number + 1, len(missing))

            if progress is not None:
                progress(0, len(missing))
            compile_kernels([specs[index] for index in missing], target, store)
            if len(missing) >= _RELEASE_AFTER:
                jit.release_memory()
    complete = [code for code in codes if code is not None]
    return [ObjectCode(str(spec), spec.symbol, code) for spec, code in zip(specs, complete, strict=True)], len(missing)
