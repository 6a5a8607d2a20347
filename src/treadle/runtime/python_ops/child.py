"""The program of a worker process: it runs functions on arrays and sends back their results or exceptions."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import traceback
from typing import Any

import numpy as np

from treadle.lru import LRU
from treadle.runtime.interpreter import die_with
from treadle.runtime.python_ops.memory import Receiver, Sender

MOST_FUNCTIONS = 64
"""How many functions a worker process keeps. Its parent keeps their keys in the same order, so it knows them."""

RETURNED, RAISED, MISSING = "returned", "raised", "missing"
"""Kinds of answers: results; an exception; the function's module cannot be imported in this process."""


def main(channel: int, lifeline: int) -> None:
    """Serve the socket `channel` until it ends. The process ends with the last writer of the pipe `lifeline`."""
    for descriptor in (channel, lifeline):
        os.set_inheritable(descriptor, False)
    die_with(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    with socket.socket(fileno=channel) as connection:
        sender, receiver = Sender(connection), Receiver(connection)
        functions: LRU[bytes, Any] = LRU(MOST_FUNCTIONS)
        sender.send(os.getpid(), [])
        while True:
            try:
                (key, pickled), arrays = receiver.receive()
            except EOFError:
                return
            results: list[Any] = []
            try:
                function = function_of(functions, key, pickled)
                results = [np.asarray(result) for result in function(arrays)]
                answer: tuple[Any, ...] = (RETURNED,)
            except UnknownModuleError as unknown:
                answer = (MISSING, unknown.args[0])
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the parent's to raise
                answer = (RAISED, *described(error))
            flush()
            try:
                sender.write(answer, results)
            except OSError as error:  # no memory for the results
                sender.write((RAISED, *described(error)), [])
            del arrays, results, answer
            sender.post(kept=not receiver.release())


class UnknownModuleError(Exception):
    """The module of a function cannot be imported in this process; the argument is its name."""


def function_of(functions: LRU[bytes, Any], key: bytes, pickled: bytes | None) -> Any:
    """Return the function named `key`, unpickled if a pickle comes with it. Raises UnknownModuleError."""
    if pickled is None:
        return functions.get(key)
    try:
        function = pickle.loads(pickled)  # noqa: S301 - from this program's own process
    except ModuleNotFoundError as error:
        raise UnknownModuleError(error.name) from error
    functions.put(key, function)
    return function


def described(error: BaseException) -> tuple[bytes | None, str, str]:
    """Return the exception pickled (None if it cannot be), its last line, its traceback from the user's function on."""
    import cloudpickle

    behind = error.__traceback__.tb_next if error.__traceback__ is not None else None
    text = "".join(traceback.format_exception(type(error), error, behind))
    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - what was just written
    except Exception:  # noqa: BLE001 - its text stands for it
        pickled = None
    return pickled, f"{type(error).__name__}: {error}", text


def flush() -> None:
    """Flush what the function has printed: the process may be ended at any time."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
