"""Tasks of one scripted call: the main body and forked bodies, run as far as possible before anything is computed.

A body is a generator. It yields a Tensor when control flow needs its value, and a Future when it waits for one that
is not done; otherwise it runs on, adding ops to the call's recording. When no body can continue, the recording is
flushed: the ops of all bodies are one graph, whose independent parts run concurrently on the team. No thread blocks,
so only a cycle of waits can deadlock.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Generator
from typing import Any

from treadle.compat.torch.future import Future
from treadle.compat.torch.recording import Recording
from treadle.compat.torch.state import STATE, recording_into
from treadle.compat.torch.tensor import Tensor

Body = Generator[Any, Any, Any]


MOST_NESTED = 32
"""How many forks run inside one another at once. Those inside them run later: Python's stack is limited."""


class Task:
    """One body and the future of its result."""

    def __init__(self, body: Body, scope: str) -> None:
        self.body: Body | None = body
        self.scopes = [scope]
        self.future = Future()


class Call:
    """One call of a script from outside, with all the tasks that it forks."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ready: deque[Task] = deque()
        self.waiting_for_value: list[Task] = []  # bodies that need the value of a tensor
        self.waiting: list[tuple[Future, Task]] = []
        self._running = 0  # how many tasks run inside one another
        self.functions: set[types.FunctionType] = set()  # whose code was entered
        self.named: set[str] = set()  # attributes that were read by name, with getattr or hasattr

    def fork(self, body: Body, scope: str) -> Future:
        """Starts a body and runs it as far as possible, now or before anybody has its result."""
        task = Task(body, scope)
        if self._running < MOST_NESTED:
            self._advance(task)
        else:
            self.ready.append(task)
        return task.future

    def _advance(self, task: Task) -> None:
        """Runs a body until it ends or has to wait."""
        recording = self.recording
        before, recording.scopes = recording.scopes, task.scopes
        function, recording.function = recording.function, ""
        assert task.body is not None
        self._running += 1
        try:
            while True:
                awaited = next(task.body)
                if isinstance(awaited, Tensor):
                    if awaited.array is None:
                        self.waiting_for_value.append(task)
                        return
                elif not awaited.done():
                    self.waiting.append((awaited, task))
                    return
        except StopIteration as end:
            task.future.set_result(end.value)
        except Exception as error:  # noqa: BLE001 - raised by wait()
            task.future.set_exception(error)
        finally:
            recording.scopes, recording.function = before, function
            self._running -= 1
        task.body = None
        self._wake(task.future)

    def _wake(self, future: Future) -> None:
        self.ready.extend(task for other, task in self.waiting if other is future)
        self.waiting = [(other, task) for other, task in self.waiting if other is not future]

    def drive(self, future: Future) -> None:
        """Runs tasks until `future` is done. Raises RuntimeError if it can never be."""
        while not future.done():
            if self.ready:
                self._advance(self.ready.popleft())
            elif self.waiting_for_value:
                self.recording.flush()
                self.ready.extend(self.waiting_for_value)
                self.waiting_for_value = []
            else:
                raise RuntimeError("wait(): the future can never end, as its task waits for the one that waits for it")

    def finish(self) -> None:
        """Runs the forks that nothing waited for, and computes all tensors that are still referenced."""
        while self.ready or self.waiting_for_value:
            if self.ready:
                self._advance(self.ready.popleft())
            else:
                self.recording.flush()
                self.ready.extend(self.waiting_for_value)
                self.waiting_for_value = []
        self.recording.flush()


def run(body: Body, scope: str, recording: Recording | None = None) -> tuple[Any, Call]:
    """Runs a scripted body from outside scripts. Returns its result, with all tensors computed, and the call."""
    call = Call(recording or Recording())
    before, STATE.call = STATE.call, call
    try:
        with recording_into(call.recording):
            future = call.fork(body, scope)
            del body
            call.drive(future)
            result = future.value()
            call.finish()
    finally:
        STATE.call = before
    return result, call


def drive(body: Body) -> Any:
    """Runs a scripted body called by plain Python code inside a script, which cannot be suspended."""
    call = STATE.call
    assert call is not None
    future = call.fork(body, call.recording.scopes[-1] if call.recording.scopes else "")
    call.drive(future)
    return future.value()
