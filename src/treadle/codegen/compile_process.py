"""Child processes that run LLVM and the passes for this one.

A child serves several requests, so that a program that loads several models, or whose first runs compile, starts one
child and imports LLVM and the passes once. It ends with this process, and when nothing was asked of it for some
seconds. A child is asked one thing at a time; further threads start further children.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle import forking
from treadle.codegen.compile_server import DESCRIBE, Request, receive, send
from treadle.runtime import interpreter, threads
from treadle.runtime.control import check_compile

if TYPE_CHECKING:
    from treadle.codegen.build import Progress

LOOK_SECONDS = 0.02
"""How often a thread that waits for a child looks whether the run that needs the plan should end."""

PROGRAM = "from treadle.codegen.compile_server import main; main({channel}, {lifeline}, 'treadle.compile_more')"


class _Surroundings(NamedTuple):
    """What of this process a child takes over when it starts."""

    environment: tuple[tuple[str, str], ...]
    path: tuple[str, ...]
    folder: str


class _Child:
    """A running child, and what it was started with."""

    def __init__(self, surroundings: _Surroundings) -> None:
        """Start a child. Raises OSError if it cannot be started."""
        self.surroundings = surroundings
        self._channel, theirs = socket.socketpair()
        reader, self._lifeline = os.pipe()
        try:
            with theirs:
                program = PROGRAM.format(channel=theirs.fileno(), lifeline=reader)
                self._process = interpreter.start(
                    program, (reader, theirs.fileno()), dict(surroundings.environment), silent=True
                )
        except OSError:
            self._channel.close()
            os.close(self._lifeline)
            raise
        finally:
            os.close(reader)
        waiter = threading.Thread(target=_see_off, args=(self,), name="treadle-compile-child", daemon=True)
        with suppress(RuntimeError):  # no thread: the process is reaped when the next one is started
            waiter.start()

    def ask(self, message: Any, file: int | None, progress: Progress | None) -> Any:
        """Return the child's answer to `message`; None if it ended before.

        `file` is the descriptor that comes along. Kills the child if `progress` raises, or the run that waits ends.
        """
        try:
            send(self._channel, message, file)
            while True:
                while not select.select([self._channel], [], [], LOOK_SECONDS)[0]:
                    check_compile()
                answer = receive(self._channel)
                if not isinstance(answer, tuple):
                    return answer
                if progress is not None:
                    progress(*answer)
        except OSError:
            return None
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def wait(self) -> None:
        """Wait until the child has ended."""
        self._process.wait()

    def close(self) -> None:
        """Let the child end, if it has not."""
        self._channel.close()
        os.close(self._lifeline)


_idle: list[_Child] = []
_lock = forking.lock()
os.register_at_fork(after_in_child=_idle.clear)  # they are children of the process that forked


def ask(request: Request, file: int | None = None, progress: Progress | None = None) -> bool:
    """Return whether a child has done `request`: one that waits, or a new one.

    Args:
        request: What to compile.
        file: The descriptor of the model's content, if that has no path.
        progress: Called with (kernels done, kernels in all).
    """
    return bool(_answer(request, file, progress))


def ask_description() -> str | None:
    """Return the text of the description of the CPU by LLVM; None if no child can be started, or it fails."""
    found = _answer(DESCRIBE, None, None)
    return found if isinstance(found, str) else None


def is_waiting() -> bool:
    """Return whether a child waits that a request would go to."""
    surroundings = _surroundings()
    with _lock:
        return any(child.surroundings == surroundings for child in _idle)


def _answer(message: Any, file: int | None, progress: Progress | None) -> Any:
    surroundings = _surroundings()
    child = _taken(surroundings)
    answer = None if child is None else _asked(child, message, file, progress)
    if answer is None:
        try:
            child = _Child(surroundings)
        except OSError:
            return None
        answer = _asked(child, message, file, progress)
    return answer


def _taken(surroundings: _Surroundings) -> _Child | None:
    """Return a child that waits and was started with `surroundings`; the others end."""
    with _lock:
        waiting = _idle[:]
        _idle.clear()
        found = next((child for child in waiting if child.surroundings == surroundings), None)
        for child in waiting:
            if child.surroundings != surroundings:
                child.close()
            elif child is not found:
                _idle.append(child)
    return found


def _asked(child: _Child, message: Any, file: int | None, progress: Progress | None) -> Any:
    """Return the answer of `child`, which waits again if it has one."""
    answer = None
    try:
        answer = child.ask(message, file, progress)
    finally:
        if answer is None:
            child.close()
        else:
            with _lock:
                _idle.append(child)
    return answer


def _surroundings() -> _Surroundings:
    limits = threads.get()
    environment = {name: value for name, value in os.environ.items() if name.startswith(("TREADLE_", "PYTHON"))}
    environment |= {
        "TREADLE_OUT_OF_PROCESS": "off",
        "TREADLE_INTRA_OP_THREADS": str(limits.intra_op),
        "TREADLE_INTER_OP_THREADS": str(limits.inter_op),
    }
    try:
        folder = str(Path.cwd())
    except OSError:
        folder = ""
    return _Surroundings(tuple(sorted(environment.items())), tuple(sys.path), folder)


def _see_off(child: _Child) -> None:
    """Wait for the end of `child`, so that it does not stay behind as a dead process, and forget it."""
    child.wait()
    with _lock:
        if child in _idle:
            _idle.remove(child)
            child.close()


def end_waiting() -> None:
    """Let the children end that wait for a request."""
    with _lock:
        for child in _idle:
            child.close()
        _idle.clear()
