"""Out-of-process compile: a child process compiles a model and stores its artifact in the cache folder.

LLVM, the passes and the packing of weights need up to three times the memory that runs need. The process that serves
the model never holds them: its first load takes no more memory than later ones.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treadle import knobs
from treadle.codegen.artifact import load_artifact
from treadle.codegen.artifact_record import Artifact
from treadle.codegen.build import Progress
from treadle.codegen.cache import open_cache
from treadle.codegen.compile_process import ask
from treadle.codegen.compile_server import Request
from treadle.plan.target import Target
from treadle.runtime import interpreter

MIN_BYTES = 1 << 16
"""Smaller models are compiled in this process once it has loaded LLVM: that takes less time than starting a child."""


def load_or_compile(
    model: Path | bytes,
    key: str,
    target: Target,
    settings: Mapping[str, str | bool],
    options: Mapping[str, Any],
    progress: Progress | None = None,
) -> Artifact | None:
    """Returns the artifact of `model` (a file, a folder or bytes), compiled by a child process if it is not stored yet.

    Returns None if the caller has to compile: TREADLE_OUT_OF_PROCESS is off, the cache folder cannot hold the artifact,
    the model is small and LLVM is loaded, an earlier compile stored no artifact, or the child cannot start or fails
    (compiling in this process then raises the error). `settings` are the session's, `options` those of the front end;
    `progress(done, total)` is called as kernels are compiled.
    """
    artifact = load_artifact(key, target)
    if artifact is not None or not _is_eligible(model, key):
        return artifact
    if not _compile(model, Request("", key, {**settings, **options}), progress):
        return None
    artifact = load_artifact(key, target)
    if artifact is None:
        _refuse(key)
    return artifact


def compile_more(
    model: Path | bytes,
    key: str,
    arguments: Mapping[str, Any],
    more: Mapping[str, Any],
    progress: Progress | None = None,
) -> bool:
    """Has a child compile `more` of the `model` whose artifact is called `key`; true if it succeeded.

    `arguments` are those of the session. False, too, if the same was asked before: what it compiled was not stored.
    """
    name = f"{key} {sorted(more.items())}"
    if not _is_eligible(model, name) or not _compile(model, Request("", key, arguments, more), progress):
        return False
    _refuse(name)  # if it is stored, nobody asks again
    return True


def _refuse(name: str) -> None:
    """Records that a child has compiled what is called `name`: asking again for it would be in vain."""
    with open_cache() as cache:
        if cache is not None:
            cache.store(_refusal_key(name), b"")


def _is_eligible(model: Path | bytes, name: str) -> bool:
    """True if a child process may be started and is likely to store what is called `name`."""
    if knobs.get("TREADLE_OUT_OF_PROCESS") == "off" or not interpreter.is_known():
        return False
    try:
        size = len(model) if isinstance(model, bytes) else _size(model)
    except OSError:
        return False
    if size < MIN_BYTES and "llvmlite.binding" in sys.modules:
        return False
    with open_cache() as cache:
        return (
            cache is not None and cache.is_writable() and cache.has_room_for(size) and not cache.has(_refusal_key(name))
        )


def _size(path: Path) -> int:
    """Returns the number of bytes of a file, or of the files in a folder. Raises OSError if they cannot be listed."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def _refusal_key(name: str) -> str:
    """Returns the name of an empty file that records that a child has compiled what is called `name`."""
    return hashlib.sha256(f"unkept\n{name}".encode()).hexdigest()


def _compile(model: Path | bytes, request: Request, progress: Progress | None) -> bool:
    """Has a child do `request` for `model`; true if it succeeded."""
    if isinstance(model, Path):
        return ask(request._replace(path=str(model)), None, progress)
    file = _spool(model, request.key)
    if file is None:
        return False
    try:
        return ask(request, file, progress)
    finally:
        os.close(file)


def _spool(content: bytes, key: str) -> int | None:
    """Writes `content` to a file in the cache folder and returns its descriptor; None if it cannot be written.

    The file is unlinked before it is written, so it disappears with the last process that has it open.
    """
    with open_cache() as cache:
        begun = None if cache is None else cache.begin(key)
        if cache is None or begun is None:
            return None
        file, partial = begun
        cache.abandon(partial)
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.close(file)
        return None
    return file
