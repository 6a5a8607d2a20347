"""The worker processes of this process: as many as Python functions are in progress at once, so at most inter_op.

A thread of the team that meets a Python function leases a worker and waits for it, in its place: the process runs
instead of the thread. So workers are never more than the ops in progress, and count in the team's budget.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence

from treadle.errors import WorkerError
from treadle.runtime.python_ops.child import UnknownModuleError
from treadle.runtime.python_ops.memory import Array
from treadle.runtime.python_ops.worker import Worker, pickled_function, send_by_value


class Crew:
    """Workers, leased to one thread at a time. Those without work are kept for the next, up to `most`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._most = 0

    def call(self, function: Callable[[list[Array]], Sequence[Array]], arrays: Sequence[Array]) -> list[Array]:
        """function(arrays) in a worker that is free, or in a new one. Raises as Worker.call() and pickled_function()."""
        pickled = pickled_function(function)
        worker = self._lease()
        try:
            while True:
                try:
                    return worker.call(pickled, arrays)
                except UnknownModuleError as error:
                    send_by_value(*error.args)
                before, pickled = pickled, pickled_function(function)
                if pickled == before:
                    raise WorkerError("it cannot be sent to a worker process: modules it needs are not there")
        finally:
            self._give_back(worker)

    def _lease(self) -> Worker:
        while True:
            with self._lock:
                if not self._idle:
                    worker = Worker()
                    self._busy.add(worker)
                    self._most = max(self._most, len(self._busy))
                    return worker
                worker = self._idle.pop()
                self._busy.add(worker)
            if worker.alive():
                return worker
            worker.usable = False
            self._give_back(worker)

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
            keep = worker.usable and len(self._idle) + len(self._busy) < self._most
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.end()

    def limit(self, most: int) -> None:
        """Keep so many workers at most, until more are needed at once; end those that are idle and too many."""
        with self._lock:
            self._most = most
            surplus = []
            while self._idle and len(self._idle) + len(self._busy) > most:
                surplus.append(self._idle.pop(0))
        for worker in surplus:
            worker.end()

    def pids(self) -> list[int]:
        """The processes that there are."""
        with self._lock:
            return [worker.pid for worker in (*self._idle, *self._busy)]

    def close(self) -> None:
        """End all workers, those at work included."""
        self.limit(0)
        with self._lock:
            busy = list(self._busy)
        for worker in busy:
            worker.kill()

    def hold(self) -> None:
        """Before fork(): no worker may be half made meanwhile."""
        self._lock.acquire()

    def let_go(self) -> None:
        """In the parent after fork()."""
        self._lock.release()

    def disown(self) -> None:
        """In the child after fork(): the workers are the parent's."""
        for worker in (*self._idle, *self._busy):
            worker.disown()
        self._lock = threading.Lock()
        self._idle, self._busy, self._most = [], set(), 0


crew = Crew()
"""The one of this process."""

os.register_at_fork(before=crew.hold, after_in_parent=crew.let_go, after_in_child=crew.disown)
atexit.register(crew.close)
