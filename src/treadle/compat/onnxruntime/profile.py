"""Profiles of sessions: what each node of their runs took, in the form of onnxruntime's files."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from treadle.errors import TreadleError
from treadle.tracing.record import Event, Recording, record


class Profile:
    """A recording that ends with a file. A process has one at a time: it has all runs of this time."""

    def __init__(self, prefix: str) -> None:
        """Begin to record. Raises RuntimeError if the process records already."""
        self._stack = ExitStack()
        try:
            self._recording: Recording = self._stack.enter_context(record())
        except TreadleError as failure:
            raise RuntimeError(f"enable_profiling: {failure}") from failure
        self.start_ns = time.time_ns()
        self._start = time.monotonic_ns()
        stamp = datetime.now()  # noqa: DTZ005 - local time is part of the name, as onnxruntime has it
        self._path = Path(f"{prefix}_{stamp:%Y-%m-%d_%H-%M-%S}_{stamp.microsecond // 1000:03d}.json")

    def end(self) -> str:
        """Write the file and return its path."""
        self._stack.close()
        rows = [_row(event, self._start) for event in self._recording.events]
        self._path.write_text(json.dumps(rows), encoding="utf-8")
        return str(self._path)

    def drop(self) -> None:
        """End the recording without a file."""
        self._stack.close()


def _row(event: Event, start: int) -> dict[str, object]:
    return {
        "cat": "Node",
        "pid": os.getpid(),
        "tid": event.thread,
        "dur": (event.end - event.start) // 1000,
        "ts": (event.start - start) // 1000,
        "ph": "X",
        "name": f"{event.node}_kernel_time",
        "args": {
            "op_name": event.op,
            "provider": "CPUExecutionProvider",
            "worker": str(event.worker),
            "chunks": str(event.chunks),
            "run": str(event.run),
        },
    }
