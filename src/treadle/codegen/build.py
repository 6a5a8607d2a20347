"""From kernel specs to linked machine code: taken from this process, else from disk, else compiled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakValueDictionary

from treadle import forking
from treadle.codegen.cache import kernel_key, open_cache
from treadle.codegen.link import Code, LinkError
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target

Progress = Callable[[int, int], None]


class ObjectCode(NamedTuple):
    """A compiled kernel: its spec's text, the name of its function, and the object file."""

    spec: str
    symbol: str
    content: bytes


class Library:
    """Kernels linked into this process: addresses by the text of their specs, valid as long as the library lives."""

    def __init__(self, objects: Sequence[ObjectCode]) -> None:
        named = [(one.symbol, one.content) for one in objects]
        try:
            self._held: object = (linked := Code(named))
            addresses = linked.addresses
        except LinkError:
            from treadle.codegen.jit import Linked

            self._held = (others := Linked(named))
            addresses = others.addresses
        self.addresses = {one.spec: addresses[one.symbol] for one in objects}
        self.objects = {one.spec: one for one in objects}


_lock = forking.lock()
_linked: WeakValueDictionary[tuple[str, Target], Library] = WeakValueDictionary()
"""Which library of this process holds a kernel, as long as anything uses that library or it is recent."""
_recent: deque[Library] = deque(maxlen=256)
"""Libraries that nobody may use at the moment. LLVM frees the code of a library but not all of its tables: a process
that makes and drops sessions of one model would grow with each, were it linked anew."""


_MANY = 4
"""Kernels compiled at once after which LLVM's memory is given back: that costs 8 ms when it is needed again."""


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels of one plan. Their addresses are valid as long as the set lives.

    `compiled`, `loaded` and `shared` count the kernels that were compiled, read from disk, and already
    in this process.
    """

    addresses: dict[KernelSpec, int]
    objects: tuple[ObjectCode, ...] = field(default=(), repr=False)
    compiled: int = 0
    loaded: int = 0
    shared: int = 0
    libraries: tuple[Library, ...] = field(default=(), repr=False)


def build_library(specs: Iterable[KernelSpec], target: Target, progress: Progress | None = None) -> KernelSet:
    """The kernels of `specs` (which may repeat) for `target`, ready to be called. Safe from many threads.

    `progress(done, total)` is called as kernels that have to be compiled are. Raises InternalError if a
    generator fails.
    """
    asked = [(spec, str(spec)) for spec in specs]
    unique = {text: spec for spec, text in asked}
    with _lock:
        held = link([], unique, target)
        missing = {text: spec for text, spec in unique.items() if text not in held}
        objects, compiled = _objects(list(missing.values()), target, progress) if missing else ([], 0)
        held |= link(objects, missing, target)
    return KernelSet(
        addresses={
            spec: held[text].addresses[text] for spec, text in asked
        },  # a spec with a NaN is like none but itself
        objects=tuple(held[text].objects[text] for text in unique),
        compiled=compiled,
        loaded=len(missing) - compiled,
        shared=len(unique) - len(missing),
        libraries=tuple(dict.fromkeys(held.values())),
    )


def link(objects: Sequence[ObjectCode], wanted: Iterable[str], target: Target) -> dict[str, Library]:
    """For the text of each spec in `wanted` the library that holds its kernel.

    What this process does not have yet is linked from `objects`. Safe from many threads.
    """
    with _lock:
        held = {text: library for text in wanted if (library := _linked.get((text, target))) is not None}
        fresh = [one for one in objects if one.spec not in held]
        if fresh:
            library = Library(fresh)
            _recent.append(library)
            for one in fresh:
                held[one.spec] = _linked[one.spec, target] = library
    return held


def _objects(specs: list[KernelSpec], target: Target, progress: Progress | None) -> tuple[list[ObjectCode], int]:
    """The object code of `specs`, and how many had to be compiled."""
    with open_cache() as cache:
        keys = [kernel_key(spec, target) for spec in specs]
        codes = [cache.load(key) if cache is not None else None for key in keys]
        missing = [index for index, code in enumerate(codes) if code is None]
        if missing:
            from treadle.codegen import jit
            from treadle.codegen.compiler import compile_kernels

            def made(number: int, code: bytes) -> None:
                codes[missing[number]] = code
                if cache is not None:
                    cache.store(keys[missing[number]], code)
                if progress is not None:
                    progress(number + 1, len(missing))

            if progress is not None:
                progress(0, len(missing))
            compile_kernels([specs[index] for index in missing], target, made)
            if len(missing) >= _MANY:
                jit.shed()
    kept = [code for code in codes if code is not None]
    return [ObjectCode(str(spec), spec.symbol, code) for spec, code in zip(specs, kept, strict=True)], len(missing)
