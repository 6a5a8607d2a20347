"""A worker process as its parent sees it."""

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
from treadle.runtime.python_ops.pickling import pickled

POLL_MS = 20
"""The interval at which a waiting thread checks whether its run has ended or the process has died, in milliseconds."""

EXIT_S = 1.0
"""How long a process that has closed its channel may take to exit before it is killed, in seconds."""

ONE_THREAD = dict.fromkeys(
    (
        "TREADLE_INTRA_OP_THREADS", "TREADLE_INTER_OP_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)  # fmt: skip
"""Added to a worker process's environment: it has the slot of the thread that waits for it, so one thread."""

PROGRAM = "from treadle.runtime.python_ops.child import main; main({ends})"
"""The worker process's program. It does not run the user's main module, whose functions are sent by value."""


class WorkerTraceback(Exception):  # noqa: N818 - it is where an error was, not an error
    """The traceback in a worker process, as text: the `__cause__` of the exception that was raised there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class WorkerProcess:
    """A worker process, for one thread at a time. Starting it neither forks this process nor waits for it."""

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
        self._functions: LRU[bytes, bool] = LRU(MOST_FUNCTIONS)  # keys of the functions that the process keeps
        self._ready = False
        self.usable = True

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def alive(self) -> bool:
        """True while the process runs; reaps it otherwise."""
        return self._process.poll() is None

    def call(self, pickled: bytes, arrays: Sequence[Array]) -> list[Array]:
        """Return the results of the pickled function on `arrays`, as fresh arrays.

        Raises what the function raises, caused by a WorkerTraceback; UnknownModuleError; WorkerError if the process
        dies or there is no memory; RunTimeoutError or RunCancelledError if the run around the call ends first. If
        `usable` is false afterwards, the process must be ended.
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
        """Wait for a message; `what` says for messages what the process does meanwhile."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while not poll.poll(POLL_MS):
            check_run()
            if not self.alive() and not poll.poll(0):
                raise self._died(what)

    def _died(self, what: str) -> WorkerError:
        try:
            code = self._process.wait(EXIT_S)
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
        """End the process and wait for its exit. A thread that waits for its answer gets a WorkerError."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the process and free its resources."""
        self.kill()
        self._close()

    def disown(self) -> None:
        """Free the resources without ending the process, in the child after fork()."""
        self._close()
        self._process.returncode = 0  # or its finalizer would wait for another process's child

    def _close(self) -> None:
        self._channel.close()
        self._sender.renew()
        self._receiver.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def pickled_function(function: Any) -> bytes:
    """Return `function`, pickled for another process. Raises WorkerError naming the part that cannot be pickled."""
    try:
        return pickled(function)
    except Exception as error:
        raise WorkerError(
            f"it cannot be sent to a worker process ({type(error).__name__}: {error}); give it what it needs as "
            "inputs, or run Python functions on threads: treadle.python_ops(executor='thread')"
        ) from error


def send_by_value(module: str | None) -> None:
    """Pickle functions of `module` by value from now on, as worker processes cannot import it.

    Raises ModuleNotFoundError if this process has no such module either.
    """
    import cloudpickle

    found = sys.modules.get(module or "")
    if found is None:
        raise ModuleNotFoundError(f"a worker process has no module named {module!r}", name=module)
    cloudpickle.register_pickle_by_value(found)


def raise_answer(pickled: bytes | None, last_line: str, text: str) -> NoReturn:
    """Raise the exception of a function in the worker process."""
    cause = WorkerTraceback(text)
    error = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)  # noqa: S301 - from this program's own process
        except Exception:  # noqa: BLE001 - its text stands for it
            error = None
    raise (error if isinstance(error, BaseException) else RuntimeError(last_line)) from cause


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
