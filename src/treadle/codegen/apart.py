"""Models compiled by a process of their own, which leaves their compiled form in the cache folder and ends.

LLVM, the passes and packed weights take up to three times the memory that runs do. The process that serves the model never
has them: from its first load on it holds what a later load would.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from treadle import knobs
from treadle.codegen.build import Progress
from treadle.codegen.cache import open_cache
from treadle.codegen.image import Image, find
from treadle.plan.target import Target
from treadle.runtime import interpreter, threads

LEAST_BYTES = 1 << 20
"""Smaller models are compiled where they are loaded, sooner than another Python would have started."""

_PROGRAM = (
    "import treadle; from treadle.codegen.apart import main; main(treadle.Session, {path!r}, {settings!r}, {lifeline})"
)


def found_or_compiled(
    model: Path | bytes, key: str, target: Target, settings: Mapping[str, str], progress: Progress | None = None
) -> Image | None:
    """What is kept under `key`, after another process has compiled `model`, a file or the bytes of one, if need be.

    None, and the caller is to compile, where TREADLE_OUT_OF_PROCESS is off or nothing can be kept, for small models, for
    those that were not kept before, and where the process cannot start or fails (compiling here tells why). `settings`
    are those of the session, `progress(done, total)` is called as kernels are compiled.
    """
    kept = find(key, target)
    if kept is not None or not _is_worthwhile(model, key) or not _compile(model, key, settings, progress):
        return kept
    kept = find(key, target)
    if kept is None:
        with open_cache() as cache:
            if cache is not None:
                cache.store(_unkept(key), b"")
    return kept


def _is_worthwhile(model: Path | bytes, key: str) -> bool:
    """Whether another process may be started, and is likely to leave something under `key`."""
    if knobs.get("TREADLE_OUT_OF_PROCESS") == "off" or not interpreter.is_known():
        return False
    try:
        size = len(model) if isinstance(model, bytes) else model.stat().st_size
    except OSError:
        return False
    if size < LEAST_BYTES:
        return False
    with open_cache() as cache:
        return cache is not None and cache.may_grow() and cache.has_room_for(size) and not cache.has(_unkept(key))


def _unkept(key: str) -> str:
    """The name of an empty file that says that nothing was kept under `key`, though it was compiled for that."""
    return hashlib.sha256(f"unkept\n{key}".encode()).hexdigest()


def _compile(model: Path | bytes, key: str, settings: Mapping[str, str], progress: Progress | None) -> bool:
    """Whether another process has made a session of the model, and so left what it could under `key`."""
    if isinstance(model, Path):
        return _compile_file(str(model), (), settings, progress)
    file = _written(model, key)
    if file is None:
        return False
    try:
        return _compile_file(f"/dev/fd/{file}", (file,), settings, progress)
    finally:
        os.close(file)


def _written(content: bytes, key: str) -> int | None:
    """A descriptor of a file in the cache folder that holds `content`; None if it cannot be written.

    It has no name any more, and so ends with the processes that have it open, however these end.
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


def _compile_file(
    path: str, descriptors: tuple[int, ...], settings: Mapping[str, str], progress: Progress | None
) -> bool:
    """As `_compile`, of a file that the other process can read if it inherits `descriptors`.

    It may have as many threads as this one, and ends with it.
    """
    limits = threads.get()
    environment = {
        "TREADLE_OUT_OF_PROCESS": "off",
        "TREADLE_INTRA_OP_THREADS": str(limits.intra_op),
        "TREADLE_INTER_OP_THREADS": str(limits.inter_op),
    }
    reader, lifeline = os.pipe()
    try:
        program = _PROGRAM.format(path=path, settings=dict(settings), lifeline=reader)
        process = interpreter.start(program, (reader, *descriptors), environment, answers=True)
    except OSError:
        os.close(lifeline)
        return False
    finally:
        os.close(reader)
    try:
        with process:
            try:
                _follow(process.stdout, progress)
            except BaseException:
                process.kill()
                raise
    finally:
        os.close(lifeline)
    return process.returncode == 0


def _follow(told: IO[bytes] | None, progress: Progress | None) -> None:
    """Pass on what the process tells, until it ends."""
    assert told is not None
    for line in told:
        found = re.fullmatch(rb"treadle (\d+) (\d+)\n", line)
        if found is not None and progress is not None:
            progress(int(found[1]), int(found[2]))


def main(make_session: Callable[..., Any], path: str, settings: Mapping[str, str], lifeline: int) -> None:
    """What the process does: make a session of the model at `path`, and tell of its kernels on stdout.

    It ends at once when all is on disk: what Python tidies up before it ends takes a tenth of a second.
    """
    import signal

    from treadle.runtime.python_ops.child import die_with

    def progress(done: int, total: int) -> None:
        sys.stdout.write(f"treadle {done} {total}\n")
        sys.stdout.flush()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process if it ends itself
    os.set_inheritable(lifeline, False)
    die_with(lifeline)
    make_session(path, matmul_provider="treadle", progress=progress, **settings)
    os._exit(0)
