"""From kernel specs to linked machine code: taken from this process, else from disk, else compiled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from weft import forking
from weft.codegen import jit
from weft.codegen.cache import kernel_key, open_cache
from weft.plan.kernel_spec import KernelSpec
from weft.plan.target import Target

Progress = Callable[[int, int], None]

_lock = forking.lock()
_linked: WeakValueDictionary[tuple[str, Target], jit.Library] = WeakValueDictionary()
"""Which library of this process holds a kernel, as long as anything uses that library or it is recent."""
_recent: deque[jit.Library] = deque(maxlen=256)
"""Libraries that nobody may use at the moment. LLVM frees the code of a library but not all of its tables: a process
that makes and drops sessions of one model would grow with each, were it linked anew."""


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels of one plan. Their addresses are valid as long as the set lives.

    `compiled`, `loaded` and `shared` count the kernels that were compiled, read from disk, and already
    in this process.
    """

    addresses: dict[KernelSpec, int]
    compiled: int = 0
    loaded: int = 0
    shared: int = 0
    libraries: tuple[jit.Library, ...] = field(default=(), repr=False)


def build_library(specs: Iterable[KernelSpec], target: Target, progress: Progress | None = None) -> KernelSet:
    """The kernels of `specs` (which may repeat) for `target`, ready to be called. Safe from many threads.

    `progress(done, total)` is called as kernels that have to be compiled are. Raises InternalError if a
    generator fails.
    """
    unique = {str(spec): spec for spec in specs}
    with _lock:
        held = {text: library for text in unique if (library := _linked.get((text, target))) is not None}
        missing = {text: spec for text, spec in unique.items() if text not in held}
        objects, compiled = _objects(list(missing.values()), target, progress) if missing else ([], 0)
        if objects:
            library = jit.Library(objects)
            _recent.append(library)
            for text in missing:
                held[text] = _linked[text, target] = library
    addresses = {spec: held[text].addresses[spec] for text, spec in unique.items()}
    return KernelSet(
        addresses=addresses,
        compiled=compiled,
        loaded=len(missing) - compiled,
        shared=len(unique) - len(missing),
        libraries=tuple(dict.fromkeys(held.values())),
    )


def _objects(
    specs: list[KernelSpec], target: Target, progress: Progress | None
) -> tuple[list[tuple[KernelSpec, bytes]], int]:
    """The object code of `specs`, and how many had to be compiled."""
    with open_cache() as cache:
        keys = [kernel_key(spec, target) for spec in specs]
        codes = [cache.load(key) if cache is not None else None for key in keys]
        total, done = codes.count(None), 0
        for index, code in enumerate(codes):
            if code is not None:
                continue
            if progress is not None and done == 0:
                progress(0, total)
            fresh = codes[index] = jit.compile_kernel(specs[index], target)
            if cache is not None:
                cache.store(keys[index], fresh)
            done += 1
            if progress is not None:
                progress(done, total)
    return [(spec, code) for spec, code in zip(specs, codes, strict=True) if code is not None], total
