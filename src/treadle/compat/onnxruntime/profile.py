"""Profiles of sessions: what each node of their runs took, in the form of onnxruntime's files."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from treadle import forking
from treadle.errors import TreadleError
from treadle.tracing.record import Event, Recording, record


class _SharedRecording:
    """The one recording of the process, which all open profiles share."""

    def __init__(self) -> None:
        self._lock = forking.lock()
        self._users = 0
        self._stack = ExitStack()
        self._recording = Recording()
        self._events: list[Event] = []

    def begin(self) -> None:
        """Record for one profile more. Raises RuntimeError if something else records."""
        with self._lock:
            if self._users == 0:
                self._start()
            self._users += 1

    def end(self) -> list[Event]:
        """Record for one profile less; return all events since the first began."""
        with self._lock:
            self._stack.close()
            self._events += self._recording.events
            self._users -= 1
            events = self._events
            if self._users > 0:
                self._start()
            else:
                self._events = []
            return events

    def _start(self) -> None:
        try:
            self._recording = self._stack.enter_context(record())
        except TreadleError as failure:
            raise RuntimeError(f"enable_profiling: {failure}") from failure


_shared = _SharedRecording()


class Profile:
    """A recording that ends with a file. It has all runs of the process while it lasts."""

    def __init__(self, prefix: str) -> None:
        """Begin to record. Raises RuntimeError if `treadle.trace` records."""
        _shared.begin()
        self._process = os.getpid()
        self.start_ns = time.time_ns()
        self._start = self._loaded = time.monotonic_ns()
        stamp = datetime.now()  # noqa: DTZ005 - local time is part of the name, as onnxruntime has it
        self._path = Path(f"{prefix}_{stamp:%Y-%m-%d_%H-%M-%S}_{stamp.microsecond // 1000:03d}.json")

    def loaded(self) -> None:
        """Say that the session is ready: its making is a row of the file."""
        self._loaded = time.monotonic_ns()

    def end(self) -> str:
        """Write the file and return its path. A forked child writes none."""
        if os.getpid() == self._process:
            events = [event for event in _shared.end() if event.start >= self._loaded]
            rows = [self._session_row("session_initialization", self._start, self._loaded)]
            for events_of_run in _by_run(events).values():
                begin, end = events_of_run[0].start, max(event.end for event in events_of_run)
                rows += [self._node_row(event) for event in events_of_run]
                rows.append(self._session_row("model_run", begin, end))
            self._path.write_text(json.dumps(rows), encoding="utf-8")
        return str(self._path)

    def drop(self) -> None:
        """End the recording without a file."""
        _shared.end()

    def _session_row(self, name: str, begin: int, end: int) -> dict[str, object]:
        return self._row("Session", name, threading.get_native_id(), begin, end, {})

    def _node_row(self, event: Event) -> dict[str, object]:
        about: dict[str, object] = {
            "op_name": event.op,
            "provider": "CPUExecutionProvider",
            "worker": str(event.worker),
            "chunks": str(event.chunks),
            "run": str(event.run),
        }
        return self._row("Node", f"{event.node}_kernel_time", event.thread, event.start, event.end, about)

    def _row(self, kind: str, name: str, thread: int, begin: int, end: int, about: object) -> dict[str, object]:
        return {
            "cat": kind,
            "pid": self._process,
            "tid": thread,
            "dur": (end - begin) // 1000,
            "ts": (begin - self._start) // 1000,
            "ph": "X",
            "name": name,
            "args": about,
        }


def _by_run(events: Iterable[Event]) -> dict[int, list[Event]]:
    """The events of each run, in order of their start."""
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(event.run, []).append(event)
    return found
