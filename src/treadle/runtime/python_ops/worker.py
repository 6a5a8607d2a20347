"""A worker process as its parent sees it: started, called, ended."""

from __future__ import annotations

import hashlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from treadle.errors import RunTimeoutError, WorkerError
from treadle.lru import LRU
from treadle.runtime import interpreter
from treadle.runtime.control import check_run
from treadle.runtime.python_ops.child import MISSING, MOST_FUNCTIONS, RETURNED, UnknownModuleError
from treadle.runtime.python_ops.memory import Array, Receiver, Sender

LOOK_MS = 20
"""How often who waits for a worker looks whether its run has ended, or the process died."""

DYING_S = 1.0
"""How long a process that has closed its end may take to end, before it is killed."""

ONE_THREAD = dict.fromkeys(
    (
        "TREADLE_INTRA_OP_THREADS", "TREADLE_INTER_OP_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)  # fmt: skip
"""Put into a worker's environment: it has one place of the team, that of the thread which waits for it."""

PROGRAM = "from treadle.runtime.python_ops.child import main; main({ends})"
"""The user's own main module is not run again: functions in it come by value."""


class WorkerTraceback(Exception):  # noqa: N818 - it is where an error was, not an error
    """The traceback of an exception raised in a worker process, as text: the `__cause__` of the exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Worker:
    """One process. Used by one thread at a time. Starting it neither forks this process nor waits for it."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader, self._lifeline = os.pipe()
        ends = theirs.fileno(), reader
        try:
            self._process = interpreter.start(PROGRAM.format(ends=f"{ends[0]}, {ends[1]}"), ends, ONE_THREAD)
        except OSError as error:
            mine.close()
            os.close(self._lifeline)
            raise WorkerError(f"python_ops(executor='process'): a worker process could not start: {error}") from error
        finally:
            theirs.close()
            os.close(reader)
        self._channel = mine
        self._sender, self._receiver = Sender(mine), Receiver(mine)
        self._functions: LRU[bytes, bool] = LRU(MOST_FUNCTIONS)  # keys of those that the process has
        self._ready = False
        self.usable = True

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the process is there still; its remains are taken away if not."""
        return self._process.poll() is None

    def call(self, pickled: bytes, arrays: Sequence[Array]) -> list[Array]:
        """The results of the pickled function on `arrays`, computed there; fresh arrays.

        Raises what the function raises, caused by a WorkerTraceback; UnknownModuleError; WorkerError if the process
        dies or there is no memory, RunTimeoutError or RunCancelledError if the run around it ends first. `usable` says
        whether the worker is free for another call afterwards; else it must be ended.
        """
        self.usable = False
        key = hashlib.blake2b(pickled, digest_size=16).digest()
        try:
            if not self._ready:
                self._wait("started")
                self._receiver.receive()
                self._ready = True
            known = self._functions.get(key, False)
            self._sender.send((key, None if known else pickled), arrays)
            self._wait("ran")
            answer, results = self._receiver.receive()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise self._died("ran") from None
        except RunTimeoutError:  # an OSError too
            raise
        except OSError as error:
            raise WorkerError(f"its arrays could not be put into shared memory: {error}") from error
        if self._receiver.kept:
            self._sender.renew()
        copies = [result if result.dtype.hasobject else result.copy() for result in results]
        del results
        self._receiver.release()
        self.usable = True
        if answer[0] == MISSING:
            raise UnknownModuleError(answer[1])
        self._functions.put(key, True)
        if answer[0] != RETURNED:
            raise_answer(*answer[1:])
        return copies

    def _wait(self, what: str) -> None:
        """Until there is something to receive."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while not poll.poll(LOOK_MS):
            check_run()
            if not self.alive() and not poll.poll(0):
                raise self._died(what)

    def _died(self, what: str) -> WorkerError:
        try:
            code = self._process.wait(DYING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        if not self._ready:
            return WorkerError(f"a worker process (pid {self.pid}) {how} while it {what}; see what it wrote to stderr")
        return WorkerError(
            f"the worker process that {what} it (pid {self.pid}) {how}; another one takes its place, "
            "and the session may be used again"
        )

    def kill(self) -> None:
        """End the process and wait until it is gone; who waits for its answer sees it."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the process, and free what belongs to it."""
        self.kill()
        self._let_go()

    def disown(self) -> None:
        """In the child after fork(): let go of it without ending it."""
        self._let_go()
        self._process.returncode = 0  # or its finalizer would wait for another process's child

    def _let_go(self) -> None:
        self._channel.close()
        self._sender.renew()
        self._receiver.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def pickled_function(function: Any) -> bytes:
    """`function` for another process. Raises WorkerError naming what cannot go there."""
    import cloudpickle

    try:
        return cloudpickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[no-any-return]
    except Exception as error:
        raise WorkerError(
            f"it cannot be sent to a worker process ({type(error).__name__}: {error}); give it what it needs as "
            "inputs, or run Python functions on threads: treadle.python_ops(executor='thread')"
        ) from error


def send_by_value(module: str | None) -> None:
    """From now on send functions of `module` as those of the main module: the workers cannot import it.

    Raises ModuleNotFoundError if this process does not have it either.
    """
    import cloudpickle

    found = sys.modules.get(module or "")
    if found is None:
        raise ModuleNotFoundError(f"a worker process has no module named {module!r}", name=module)
    cloudpickle.register_pickle_by_value(found)


def raise_answer(pickled: bytes | None, last_line: str, text: str) -> NoReturn:
    """Raise what the function raised."""
    cause = WorkerTraceback(text)
    error = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)  # noqa: S301 - from this program's own process
        except Exception:  # noqa: BLE001 - then it is told by its text
            error = None
    raise (error if isinstance(error, BaseException) else RuntimeError(last_line)) from cause


def signal_name(number: int) -> str:
    """As SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
