"""Runs in the background: a future for each, served by a few threads per team."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from treadle import _native, forking
from treadle.errors import RunError, ThreadLimitError
from treadle.runtime.control import Request
from treadle.runtime.limits import checked, chosen
from treadle.runtime.numpy_threads import one_thread

if TYPE_CHECKING:
    from treadle.runtime.threads import Threads

LINGER_S = 0.05
"""How long a thread without work waits for more before it ends."""

Outputs = dict[str, Any]
Work = Callable[[], Outputs]


class RunFuture(Future[Outputs]):
    """The outputs of a run to come: a concurrent.futures.Future that can also be awaited.

    set_limits() changes its limits at any time. cancel() ends the run wherever it stands; result() then raises
    CancelledError if it had not begun, else RunCancelledError. Cancelling the task that awaits it cancels the run.

    A Python task may wait for it, on a pool of one place too: a run that has not begun is then done by the task's own
    thread, and one that has begun gets the task's place for as long as the task waits.
    """

    def __init__(
        self, token: _native.CancelToken, background: Background, limits: _native.RunLimits, its_threads: Threads
    ) -> None:
        super().__init__()
        self._token = token
        self._background = background
        self._limits = limits
        self._threads = its_threads

    def set_limits(self, *, intra_op: int | None = None, inter_op: int | None = None) -> None:
        """Change the limits of this run, from its next op on; None leaves a limit, 0 is automatic.

        Any thread, any time; without effect when the run has ended. Goes before what the run was asked for when it was
        started. Raises ThreadSettingError, and then changes nothing, for what is impossible.
        """
        asked = {"intra_op": intra_op, "inter_op": inter_op}
        made = {
            name: checked(name, value, f"RunFuture.set_limits({name}=)")
            for name, value in asked.items()
            if value is not None
        }
        with self._background.limiting:
            now = dict(zip(asked, self._limits.get(), strict=True))
            for name, value in made.items():
                now[name] = chosen(value, "RunFuture.set_limits", self._threads.topology()).value
            self._limits.set(**now)

    def result(self, timeout: float | None = None) -> Outputs:
        """The outputs, which await gives too.

        Raises what the run raised, CancelledError, TimeoutError after `timeout` seconds, or RunError in a child made by
        fork() while the run was in progress.
        """
        with self._background.awaited(self, timeout):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the run raised, or None. Raises CancelledError, TimeoutError and RunError as result() does."""
        with self._background.awaited(self, timeout):
            return super().exception(timeout)

    def cancel(self) -> bool:
        """End the run; False if it has ended already."""
        if super().cancel():
            return True
        if self.done():
            return False
        self._token.cancel()
        return True

    def __await__(self) -> Generator[Any, None, Outputs]:
        import asyncio

        self._background.refuse_left_behind(self)
        return asyncio.wrap_future(self).__await__()


class Background:
    """Threads that call `run` for others: no more than the team has places, and none when there is nothing to do.

    What waits is served by priority, then by age; what passes its deadline while it waits fails then.
    """

    def __init__(self, name: str, lent: Callable[[], AbstractContextManager[None]]) -> None:
        """`lent` gives the team one place more for as long as it is entered."""
        self._name = name
        self._lent = lent
        self._wake = threading.Condition(forking.lock())
        self.limiting = forking.lock()
        self._queue: list[tuple[int, int, RunFuture, Request, Work]] = []
        self._numbers = itertools.count()
        self._threads = self._idle = 0
        self._timekeeper = False
        self.left_behind = False
        """Whether this is a child made by fork(): the threads are its parent's, and so are the runs."""

    def submit(self, future: RunFuture, request: Request, work: Work, places: int) -> None:
        """Have `work` done for `future` when its turn comes, by `places` threads in all at most.

        Raises ThreadLimitError, and then nothing will be done, if it needs a thread that cannot be started.
        """
        with self._wake:
            if len(self._queue) >= self._idle:
                if self._threads < places:
                    self._start_serving()
                elif not self._timekeeper and (request.deadline is not None or self._has_deadlines()):
                    self._start(self._keep_time, f"treadle-{self._name}-timeout")
                    self._timekeeper = True
            heapq.heappush(self._queue, (-request.priority, next(self._numbers), future, request, work))
            self._wake.notify_all()

    def _has_deadlines(self) -> bool:
        return any(entry[3].deadline is not None for entry in self._queue)

    def _start_serving(self) -> None:
        """One thread more that serves, or those that there are go on alone; it waits for the lock that the caller holds."""
        try:
            self._start(self._serve, f"treadle-{self._name}-async")
        except ThreadLimitError:
            if not self._threads:
                raise
        else:
            self._threads += 1

    def refuse_left_behind(self, future: RunFuture) -> None:
        """Raises RunError if nothing in this process will ever end the run of `future`."""
        if not future.done() and self.left_behind:
            raise RunError(
                "the run was begun by the process that forked this one, which alone gets its outputs; "
                "begin another here"
            )

    @contextmanager
    def awaited(self, future: RunFuture, timeout: float | None) -> Iterator[None]:
        """Around waiting for `future`: if the thread is in a Python task, see to it that its place is not missed."""
        self.refuse_left_behind(future)
        if future.done() or not one_thread.is_inside():
            yield
            return
        entry = self._claim(future) if timeout is None else None
        if entry is not None:
            finish(*entry)
            yield
        else:
            with self._lent(), _native.Resting():
                with self._wake:
                    if len(self._queue) > self._idle:  # all who serve may be waiting in tasks
                        self._start(self._serve, f"treadle-{self._name}-async")
                        self._threads += 1
                yield

    def _claim(self, future: RunFuture) -> tuple[RunFuture, Request, Work] | None:
        """Take `future` out of the queue, if it is there."""
        with self._wake:
            for index, entry in enumerate(self._queue):
                if entry[2] is future:
                    del self._queue[index]
                    heapq.heapify(self._queue)
                    return entry[2:]
        return None

    @staticmethod
    def _start(target: Callable[[], None], name: str) -> None:
        try:
            threading.Thread(target=target, name=name).start()
        # Python's one word for a system that gives no thread, and for a process that ends.
        except RuntimeError as error:
            raise ThreadLimitError(
                f"a run in the background needs the thread {name!r}, which cannot be started: {error}; raise the limit on "
                "threads of the process or its container, or call run()"
            ) from None

    def _serve(self) -> None:
        while True:
            with self._wake:
                end = time.monotonic() + LINGER_S
                self._idle += 1
                while not self._queue and (left := end - time.monotonic()) > 0:
                    self._wake.wait(left)
                self._idle -= 1
                if not self._queue:
                    self._threads -= 1
                    return
                _, _, future, request, work = heapq.heappop(self._queue)
            finish(future, request, work)
            del future, request, work

    def _keep_time(self) -> None:
        """Fails what passes its deadline in the queue, while anything there has one."""
        while True:
            late: list[tuple[RunFuture, Request]] = []
            with self._wake:
                deadlines = [entry[3].deadline for entry in self._queue if entry[3].deadline is not None]
                if not deadlines:
                    self._timekeeper = False
                    return
                self._wake.wait(min(60.0, max(0.0, min(deadlines) - time.monotonic())))
                now = time.monotonic()
                waiting = []
                for entry in self._queue:
                    deadline = entry[3].deadline
                    if deadline is not None and deadline <= now:
                        late.append((entry[2], entry[3]))
                    else:
                        waiting.append(entry)
                heapq.heapify(waiting)
                self._queue = waiting
            for future, request in late:
                if future.set_running_or_notify_cancel():
                    future.set_exception(request.ran_out())


def finish(future: RunFuture, request: Request, work: Work) -> None:
    """Do the work and give the future what comes of it."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        request.check()
        outputs = work()
    except BaseException as error:  # noqa: BLE001 - it is the caller of result() who has to hear of it
        future.set_exception(error)
    else:
        future.set_result(outputs)
