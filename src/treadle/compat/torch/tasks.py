"""Tasks of one scripted call: forked bodies and the main body, taken as far as they go before anything is computed.

A body is a generator. It yields a Tensor when control flow asks for its value, a Future when it waits for one that has
not ended; else it runs on, noting tensor code in the call's one recording. When no body can go on, the recording is
flushed: everything noted, of all bodies, is one graph whose independent parts run at once on the team. Nothing here
blocks a thread, so nothing can deadlock that a person would not call a cycle.
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


class Task:
    """One body on its way to its future."""

    def __init__(self, body: Body, scope: str) -> None:
        self.body: Body | None = body
        self.scopes = [scope]
        self.future = Future()


class Call:
    """One call of a script from outside, with all the tasks it forks."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ready: deque[Task] = deque()
        self.wanting: list[Task] = []  # bodies that wait for the value of a tensor
        self.waiting: list[tuple[Future, Task]] = []
        self.functions: set[types.FunctionType] = set()  # whose code it entered
        self.named: set[str] = set()  # attributes that it asked for by strings

    def fork(self, body: Body, scope: str) -> Future:
        """Start a body: it runs as far as it goes at once."""
        task = Task(body, scope)
        self._advance(task)
        return task.future

    def _advance(self, task: Task) -> None:
        """Run a body until it ends or cannot go on."""
        recording = self.recording
        before, recording.scopes = recording.scopes, task.scopes
        function, recording.function = recording.function, ""
        assert task.body is not None
        try:
            while True:
                asked = next(task.body)
                if isinstance(asked, Tensor):
                    if asked.array is None:
                        self.wanting.append(task)
                        return
                elif not asked.done():
                    self.waiting.append((asked, task))
                    return
        except StopIteration as end:
            task.future.set_result(end.value)
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            task.future.set_exception(error)
        finally:
            recording.scopes, recording.function = before, function
        task.body = None
        self._wake(task.future)

    def _wake(self, future: Future) -> None:
        self.ready.extend(task for other, task in self.waiting if other is future)
        self.waiting = [(other, task) for other, task in self.waiting if other is not future]

    def drive(self, wanted: Future) -> None:
        """Run tasks until `wanted` has ended. Raises RuntimeError if that cannot be."""
        while not wanted.done():
            if self.ready:
                self._advance(self.ready.popleft())
            elif self.wanting:
                self.recording.flush()
                self.ready.extend(self.wanting)
                self.wanting = []
            else:
                raise RuntimeError("wait(): the future can never end, as its task waits for the one that waits for it")

    def finish(self) -> None:
        """Run what was forked and never waited for, and compute everything that is still in use."""
        while self.ready or self.wanting:
            if self.ready:
                self._advance(self.ready.popleft())
            else:
                self.recording.flush()
                self.ready.extend(self.wanting)
                self.wanting = []
        self.recording.flush()


def run(body: Body, scope: str, recording: Recording | None = None) -> tuple[Any, Call]:
    """Run a scripted body from outside scripts: its result, all tensors computed, and the call that it was."""
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
    """The result of a scripted body that plain Python code calls inside a script: it cannot be set aside."""
    call = STATE.call
    assert call is not None
    future = call.fork(body, call.recording.scopes[-1] if call.recording.scopes else "")
    call.drive(future)
    return future.value()
