"""Runs in the background: their futures, and the threads that serve them."""

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
from treadle.runtime.numpy_threads import single_thread

if TYPE_CHECKING:
    from treadle.runtime.threads import Threads

IDLE_S = 0.05
"""How long an idle thread waits for work before it ends, in seconds."""

Outputs = dict[str, Any]
Work = Callable[[], Outputs]


class RunFuture(Future[Outputs]):
    """The outputs of a run in the background: a concurrent.futures.Future that can also be awaited.

    cancel() ends the run at any point; result() then raises CancelledError if the run had not begun, else
    RunCancelledError. Cancelling an asyncio task that awaits the future cancels the run.

    A Python function in a run may wait for the future, even on a pool with one slot: its thread executes a run that has
    not begun, and lends its slot to one that has.

    Example:
        >>> future = session.run_async({"x": x})
        >>> future.set_limits(intra_op=1)
        >>> future.result(timeout=1.0)["logits"].shape
        (1, 1000)
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
        """Change the limits of this run at its next op, at any time, from any thread.

        They replace those that the run was started with. Nothing happens when the run has ended.

        Args:
            intra_op: How many workers may share one op. 0: automatic. None: unchanged.
            inter_op: How many independent ops may be in progress at once. 0: automatic. None: unchanged.

        Raises:
            ThreadSettingError: A number cannot be. Nothing is changed then.
        """
        limits = {"intra_op": intra_op, "inter_op": inter_op}
        made = {
            name: checked(name, value, f"RunFuture.set_limits({name}=)")
            for name, value in limits.items()
            if value is not None
        }
        with self._background.limiting:
            now = dict(zip(limits, self._limits.get(), strict=True))
            for name, value in made.items():
                now[name] = chosen(value, "RunFuture.set_limits", self._threads.topology()).value
            self._limits.set(**now)

    def result(self, timeout: float | None = None) -> Outputs:
        """Wait for the outputs; `await future` does so too.

        Args:
            timeout: How long to wait, in seconds. None: until the run ends.

        Returns:
            An array for each output, by name.

        Raises:
            CancelledError: The run was cancelled before it began.
            TimeoutError: The run did not end within `timeout`; it goes on.
            TreadleError: The error of the run; RunError in the child of a fork() made while the run was in progress.
        """
        with self._background.waiting_for(self, timeout):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the run and return its error, None if there was none.

        Args:
            timeout: How long to wait, in seconds. None: until the run ends.

        Raises:
            CancelledError: The run was cancelled before it began.
            TimeoutError: The run did not end within `timeout`; it goes on.
        """
        with self._background.waiting_for(self, timeout):
            return super().exception(timeout)

    def cancel(self) -> bool:
        """End the run at its next chunk.

        Returns:
            False if the run has ended already.
        """
        if super().cancel():
            return True
        if self.done():
            return False
        self._token.cancel()
        return True

    def __await__(self) -> Generator[Any, None, Outputs]:
        import asyncio

        self._background.check_not_forked(self)
        return asyncio.wrap_future(self).__await__()


class _Thread(threading.Thread):
    """A thread of a Background."""


def _is_process_ending() -> bool:
    """Whether the main thread has ended, and no other thread that could wait for a run keeps the process."""
    main = threading.main_thread()
    return not main.is_alive() and all(
        thread is main or thread.daemon or isinstance(thread, _Thread) for thread in threading.enumerate()
    )


class Background:
    """The queue of background runs of one team, and the threads that serve it: at most one per slot, none without work.

    Runs are served by priority, then by age. A run that passes its deadline in the queue fails then. Runs that have not
    begun when the process ends are cancelled.
    """

    def __init__(self, name: str, extra_slot: Callable[[], AbstractContextManager[None]]) -> None:
        """`extra_slot` makes a context manager that adds a slot to the team."""
        self._name = name
        self._extra_slot = extra_slot
        self._wake = threading.Condition(forking.lock())
        self.limiting = forking.lock()
        self._queue: list[tuple[int, int, RunFuture, Request, Work]] = []
        self._numbers = itertools.count()
        self._threads = self._idle = 0
        self._timekeeper = False
        self.is_forked = False
        """True in the child of a fork(): the threads and the runs are the parent's."""

    def submit(self, future: RunFuture, request: Request, work: Work, slots: int) -> None:
        """Queue `work` for `future`. At most `slots` threads serve the queue.

        Raises ThreadLimitError, and then queues nothing, if it needs a thread that cannot be started.
        """
        with self._wake:
            if len(self._queue) >= self._idle:
                if self._threads < slots:
                    self._start_serving()
                elif not self._timekeeper and (request.deadline is not None or self._has_deadlines()):
                    self._start(self._keep_time, f"treadle-{self._name}-timeout")
                    self._timekeeper = True
            heapq.heappush(self._queue, (-request.priority, next(self._numbers), future, request, work))
            self._wake.notify_all()

    def _has_deadlines(self) -> bool:
        return any(entry[3].deadline is not None for entry in self._queue)

    def _start_serving(self) -> None:
        """Start a thread that serves the queue; if the system starts none, the present ones suffice. Needs the lock."""
        try:
            self._start(self._serve, f"treadle-{self._name}-async")
        except ThreadLimitError:
            if not self._threads:
                raise
        else:
            self._threads += 1

    def check_not_forked(self, future: RunFuture) -> None:
        """Raise RunError if `future` is that of a run in the parent process."""
        if not future.done() and self.is_forked:
            raise RunError(
                "the run was begun by the process that forked this one, which alone gets its outputs; "
                "begin another here"
            )

    @contextmanager
    def waiting_for(self, future: RunFuture, timeout: float | None) -> Iterator[None]:
        """Return a context manager for waiting. In a Python task it lends the task's slot, or executes the run."""
        self.check_not_forked(future)
        if future.done() or not single_thread.is_inside():
            yield
            return
        entry = self._claim(future) if timeout is None else None
        if entry is not None:
            finish(*entry)
            yield
        else:
            with self._extra_slot(), _native.Resting():
                with self._wake:
                    if len(self._queue) > self._idle:  # every serving thread may be waiting in a Python task
                        self._start(self._serve, f"treadle-{self._name}-async")
                        self._threads += 1
                yield

    def _claim(self, future: RunFuture) -> tuple[RunFuture, Request, Work] | None:
        """Remove `future` from the queue and return its entry; None if it is not there."""
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
            _Thread(target=target, name=name).start()
        # Python raises it if the system starts no thread, and if the process is ending.
        except RuntimeError as error:
            raise ThreadLimitError(
                f"a run in the background needs the thread {name!r}, which cannot be started: {error}; raise the limit "
                "on threads of the process or its container, or call run()"
            ) from None

    def _serve(self) -> None:
        while True:
            with self._wake:
                end = time.monotonic() + IDLE_S
                self._idle += 1
                while not self._queue and (left := end - time.monotonic()) > 0:
                    self._wake.wait(left)
                self._idle -= 1
                if self._queue and _is_process_ending():
                    self._cancel_all()
                if not self._queue:
                    self._threads -= 1
                    return
                _, _, future, request, work = heapq.heappop(self._queue)
            finish(future, request, work)
            del future, request, work

    def _cancel_all(self) -> None:
        """Cancel the runs that have not begun. Needs the lock."""
        for _, _, future, _, _ in self._queue:
            if future.cancel():
                future.set_running_or_notify_cancel()
        self._queue.clear()
        self._wake.notify_all()

    def _keep_time(self) -> None:
        """Fail queued runs that pass their deadlines, until no queued run has one."""
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
                    future.set_exception(request.timeout_error())


def finish(future: RunFuture, request: Request, work: Work) -> None:
    """Do the work and give its result or error to the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        request.check()
        outputs = work()
    except BaseException as error:  # noqa: BLE001 - result() raises it
        future.set_exception(error)
    else:
        future.set_result(outputs)
