"""Out-of-process compile: a child process compiles a model, stores its artifact in the cache folder, and exits.

LLVM, the passes and the packing of weights need up to three times the memory that runs need. The process that serves
the model never holds them: its first load takes no more memory than later ones.
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
from treadle.codegen.artifact import load_artifact
from treadle.codegen.artifact_record import Artifact
from treadle.codegen.build import Progress
from treadle.codegen.cache import open_cache
from treadle.plan.target import Target
from treadle.runtime import interpreter, threads

MIN_BYTES = 1 << 16
"""Smaller models are compiled in this process: most of them take less time than starting another Python."""

_PROGRAM = (
    "import treadle; from treadle.codegen.out_of_process import main; "
    "main(treadle.Session, {path!r}, {settings!r}, {lifeline})"
)


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
    the model is small, an earlier compile stored no artifact, or the child cannot start or fails (compiling in this
    process then raises the error). `settings` are the session's, `options` those of the front end, which their `repr`
    gives; `progress(done, total)` is called as kernels are compiled.
    """
    artifact = load_artifact(key, target)
    arguments = {**settings, **options}
    if artifact is not None or not _is_eligible(model, key) or not _compile(model, key, arguments, progress):
        return artifact
    artifact = load_artifact(key, target)
    if artifact is None:
        with open_cache() as cache:
            if cache is not None:
                cache.store(_refusal_key(key), b"")
    return artifact


def _is_eligible(model: Path | bytes, key: str) -> bool:
    """True if a child process may be started and is likely to store an artifact under `key`."""
    if knobs.get("TREADLE_OUT_OF_PROCESS") == "off" or not interpreter.is_known():
        return False
    try:
        size = len(model) if isinstance(model, bytes) else _size(model)
    except OSError:
        return False
    if size < MIN_BYTES:
        return False
    with open_cache() as cache:
        return (
            cache is not None and cache.is_writable() and cache.has_room_for(size) and not cache.has(_refusal_key(key))
        )


def _size(path: Path) -> int:
    """Returns the number of bytes of a file, or of the files in a folder. Raises OSError if they cannot be listed."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def _refusal_key(key: str) -> str:
    """Returns the name of an empty file that records that compiling the model of `key` stored no artifact."""
    return hashlib.sha256(f"unkept\n{key}".encode()).hexdigest()


def _compile(model: Path | bytes, key: str, settings: Mapping[str, Any], progress: Progress | None) -> bool:
    """Compiles the model in a child process; true if the child succeeded."""
    if isinstance(model, Path):
        return _compile_file(str(model), (), settings, progress)
    file = _spool(model, key)
    if file is None:
        return False
    try:
        return _compile_file(f"/dev/fd/{file}", (file,), settings, progress)
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


def _compile_file(
    path: str, descriptors: tuple[int, ...], settings: Mapping[str, Any], progress: Progress | None
) -> bool:
    """Compiles the model at `path` in a child that inherits `descriptors`; true if the child succeeded.

    The child has the thread limits of this process and ends with it.
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
                _forward_progress(process.stdout, progress)
            except BaseException:
                process.kill()
                raise
    finally:
        os.close(lifeline)
    return process.returncode == 0


def _forward_progress(stdout: IO[bytes] | None, progress: Progress | None) -> None:
    """Calls `progress` for each line that the child prints, until the child closes its output."""
    assert stdout is not None
    for line in stdout:
        match = re.fullmatch(rb"treadle (\d+) (\d+)\n", line)
        if match is not None and progress is not None:
            progress(int(match[1]), int(match[2]))


def main(make_session: Callable[..., Any], path: str, settings: Mapping[str, Any], lifeline: int) -> None:
    """Runs in the child: makes a session of the model at `path`, which stores its artifact, and prints progress.

    The child exits without Python's finalization, which would take a tenth of a second.
    """
    import signal

    from treadle.runtime.python_ops.child import die_with

    def progress(done: int, total: int) -> None:
        sys.stdout.write(f"treadle {done} {total}\n")
        sys.stdout.flush()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; the child ends when the parent does
    os.set_inheritable(lifeline, False)
    die_with(lifeline)
    make_session(path, matmul_provider="treadle", progress=progress, **settings)
    os._exit(0)
