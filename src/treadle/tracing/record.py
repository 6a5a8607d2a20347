"""Recording: the events between the start and the end of a trace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TextIO

from treadle import _native, forking
from treadle.errors import InputError, TreadleError
from treadle.tracing.registry import PROGRAMS


@dataclass(frozen=True, slots=True)
class Event:
    """One worker's part in one step. Times are in ns on the monotonic clock.

    `team` and `worker` (the place in that team, 0 .. places - 1) name the track, `thread` is the id the system
    knows the thread by, `chunks` how many chunks of the op this worker did; `run` tells concurrent runs apart.
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


@dataclass(slots=True)
class Recording:
    """The events of a trace, in order of their start; filled when the trace ends."""

    events: list[Event] = field(default_factory=list)


_lock = forking.lock()
_active: Recording | None = None
"""What is being recorded in this process."""


def decode(records: Iterable[tuple[int, ...]]) -> list[Event]:
    """The native core's records as events in order of start; of two that start together the outer one first."""
    events = []
    for program, step, team, place, thread, start, end, chunks, run in records:
        label = PROGRAMS.label(program, step)
        events.append(Event(label.node, label.op, team, place, thread, start, end, chunks, run))
    return sorted(events, key=lambda event: (event.start, -event.end))


@contextmanager
def record() -> Iterator[Recording]:
    """Record every event of every team while the block runs.

    In a child made by fork() inside the block nothing is recorded before it begins a recording of its own.
    Raises TreadleError if another recording is under way: the buffers of the workers are shared.
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
    """In a child: what is being recorded is its parent's."""
    global _active  # noqa: PLW0603
    if _active is not None:
        _native.trace_stop()
        PROGRAMS.keep(recording=False)
        _active = None


os.register_at_fork(after_in_child=_forget)


def trace(path: str | os.PathLike[str]) -> Trace:
    """Record what runs in a `with` block and write it to `path` as a timeline that Perfetto opens.

    One track a worker; slices are named as the nodes of the model. Yields the Recording, whose `events`
    are there after the block. What ran before an exception left the block is written too; a child made by fork()
    inside the block leaves the file alone. What is returned may be used for any number of blocks, one after another,
    and is a decorator: as with the profilers of PyTorch and TensorFlow each block, or call, records anew and writes
    the file anew. Raises, before the block runs, TreadleError if another trace is being recorded, InputError if `path` is
    no path, OSError if it cannot be written; what `path` named before is then as it was.
    """
    return Trace(path)


class Trace(ContextDecorator):
    """What trace() returns: records in a `with` block, or, as a decorator, in the calls of a function."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._blocks: list[AbstractContextManager[Recording]] = []  # one, and in a child those of its parents

    def __enter__(self) -> Recording:
        block = _recorded(self._path)
        recording = block.__enter__()
        self._blocks.append(block)
        return recording

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, place: TracebackType | None
    ) -> bool | None:
        if not self._blocks:
            raise TreadleError("treadle.trace: this block was not entered")
        return self._blocks.pop().__exit__(kind, fault, place)


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
