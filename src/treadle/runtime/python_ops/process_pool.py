"""The worker processes of this process: as many as Python functions in progress, so at most inter_op.

A thread of the team that runs a Python function leases a worker process and waits for it: the process computes in place
of the thread. So there are never more worker processes than ops in progress, and the team's limits hold for both
together.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence

from treadle.errors import WorkerError
from treadle.runtime.python_ops.child import UnknownModuleError
from treadle.runtime.python_ops.memory import Array
from treadle.runtime.python_ops.worker_process import WorkerProcess, pickled_function, send_by_value


class ProcessPool:
    """Worker processes, each leased to one thread at a time. Idle ones are kept, up to a limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._limit = 0

    def call(self, function: Callable[[list[Array]], Sequence[Array]], arrays: Sequence[Array]) -> list[Array]:
        """Return function(arrays), run in an idle or new process. Raises as WorkerProcess.call and pickled_function."""
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
            self._return(worker)

    def _lease(self) -> WorkerProcess:
        while True:
            with self._lock:
                if not self._idle:
                    worker = WorkerProcess()
                    self._busy.add(worker)
                    self._limit = max(self._limit, len(self._busy))
                    return worker
                worker = self._idle.pop()
                self._busy.add(worker)
            if worker.alive():
                return worker
            worker.usable = False
            self._return(worker)

    def _return(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._busy.discard(worker)
            keep = worker.usable and len(self._idle) + len(self._busy) < self._limit
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.end()

    def limit(self, most: int) -> None:
        """Keep at most `most` processes, until more are needed at once; end idle ones beyond that."""
        with self._lock:
            self._limit = most
            surplus = []
            while self._idle and len(self._idle) + len(self._busy) > most:
                surplus.append(self._idle.pop(0))
        for worker in surplus:
            worker.end()

    def pids(self) -> list[int]:
        """Return the process ids."""
        with self._lock:
            return [worker.pid for worker in (*self._idle, *self._busy)]

    def close(self) -> None:
        """End all processes, busy ones included."""
        self.limit(0)
        with self._lock:
            busy = list(self._busy)
        for worker in busy:
            worker.kill()

    def hold(self) -> None:
        """Wait, before fork(), until no process is being started."""
        self._lock.acquire()

    def release(self) -> None:
        """Release, in the parent after fork(), what hold() has locked."""
        self._lock.release()

    def disown(self) -> None:
        """Forget, in the child after fork(), the processes: they are the parent's."""
        for worker in (*self._idle, *self._busy):
            worker.disown()
        self._lock = threading.Lock()
        self._idle, self._busy, self._limit = [], set(), 0


process_pool = ProcessPool()
"""The pool of this process."""

os.register_at_fork(before=process_pool.hold, after_in_parent=process_pool.release, after_in_child=process_pool.disown)
atexit.register(process_pool.close)
