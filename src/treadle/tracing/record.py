"""Recordings of events, and `treadle.trace`, which writes them to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import TextIO

from treadle import _native, forking
from treadle.errors import InputError, TreadleError
from treadle.records import dataclass
from treadle.tracing.registry import PROGRAMS


@dataclass(frozen=True, slots=True)
class Event:
    """One worker's part in one step.

    Attributes:
        node: The name of the node in the model.
        op: The op of the step.
        team: The number of the team; with `worker` it names the track.
        worker: The number of the worker's slot in the team, from 0.
        thread: The system's id of the thread.
        start: When the worker began, in ns of the monotonic clock.
        end: When it ended, likewise.
        chunks: How many chunks of the step this worker executed.
        run: The number of the run, which tells concurrent runs apart.
        iteration: The number of the iteration of the innermost loop around the step, from 0; None outside loops.
    """

    node: str
    op: str
    team: int
    worker: int
    thread: int
    start: int
    end: int
    chunks: int
    run: int
    iteration: int | None = None


@dataclass(slots=True)
class Recording:
    """The events of a trace, which are filled in when its block ends.

    Attributes:
        events: The events in order of their start.
    """

    events: list[Event] = field(default_factory=list)


_lock = forking.lock()
_active: Recording | None = None
"""The recording in progress in this process."""


def decode(records: Iterable[tuple[int, ...]]) -> list[Event]:
    """Return the native core's records as events in order of start; of two that start together the longer one first."""
    events = []
    for program, step, team, slot, thread, start, end, chunks, run, iteration in records:
        label = PROGRAMS.label(program, step)
        number = None if iteration < 0 else iteration
        events.append(Event(label.node, label.op, team, slot, thread, start, end, chunks, run, number))
    return sorted(events, key=lambda event: (event.start, -event.end))


@contextmanager
def record() -> Iterator[Recording]:
    """Record every event of every team while the block runs.

    A child made by fork() inside the block records nothing until it begins a recording of its own. Raises TreadleError
    if another recording is in progress: they would share the workers' buffers.
    """
    global _active  # noqa: PLW0603 - one a process
    recording = Recording()
    with _lock:
        if _active is not None:
            raise TreadleError("a trace is being recorded already; end it before starting another")
        _active = recording
        PROGRAMS.keep(recording=True)
        _native.trace_start()
    try:
        yield recording
    finally:
        with _lock:
            if _active is recording:
                recording.events.extend(decode(_native.trace_stop()))
                PROGRAMS.keep(recording=False)
                _active = None


def _forget() -> None:
    """Drop, in the child after fork(), the recording of the parent."""
    global _active  # noqa: PLW0603
    if _active is not None:
        _native.trace_stop()
        PROGRAMS.keep(recording=False)
        _active = None


os.register_at_fork(after_in_child=_forget)


def trace(path: str | os.PathLike[str]) -> Trace:
    """Record the runs in a `with` block and write them to a file as a timeline, which Perfetto opens.

    The timeline has one track per worker; slices have the names of the model's nodes. If an exception leaves the block,
    the events before it are written. A child made by fork() inside the block does not write the file.

    Args:
        path: The file to write. Every block replaces it.

    Returns:
        A context manager for any number of blocks, one after another; also a decorator, which records each call of a
        function. `with` yields the Recording, whose `events` are filled in when the block ends. Entering a block raises
        TreadleError if another trace is in progress, InputError if `path` is no path, OSError if the file cannot be
        written; an existing file is then unchanged.

    Example:
        >>> with treadle.trace("run.json") as recording:
        ...     session.run({"x": x})
        >>> recording.events[0].node
        'conv1'
    """
    return Trace(path)


class Trace(ContextDecorator):
    """Records a `with` block, or, as a decorator, the calls of a function."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._blocks: list[AbstractContextManager[Recording]] = []  # one; in a forked child also those of its parents

    def __enter__(self) -> Recording:
        block = _recorded(self._path)
        recording = block.__enter__()
        self._blocks.append(block)
        return recording

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if not self._blocks:
            raise TreadleError("treadle.trace: this block was not entered")
        return self._blocks.pop().__exit__(kind, error, traceback)


@contextmanager
def _recorded(path: str | os.PathLike[str]) -> Iterator[Recording]:
    from treadle.tracing.chrome import write

    process, file = os.getpid(), None
    try:
        with record() as recording:
            file = _opened(path)
            yield recording
    finally:
        if file is not None:
            with file:
                if os.getpid() == process:
                    write(recording.events, file)


def _opened(path: str | os.PathLike[str]) -> TextIO:
    try:
        return Path(path).open("w", encoding="utf-8")
    except (TypeError, ValueError) as error:
        raise InputError(f"trace(path): wanted the path of a file to write, got {path!r}: {error}") from None
