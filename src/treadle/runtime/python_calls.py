"""Calls of Python functions by a run: on one thread, and with errors that name the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from treadle.errors import (
    KernelError,
    MemoryLimitError,
    RunCancelledError,
    RunError,
    RunTimeoutError,
    TreadleError,
    WorkerError,
)
from treadle.runtime.numpy_threads import one_thread

P = ParamSpec("P")
R = TypeVar("R")


def call_for(where: str, waits: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `function` returns for the node `where`; NumPy's BLAS uses the calling thread alone unless it `waits`.

    Raises RunError (KernelError for bad data, WorkerError for a fault of a worker process) with `where` in its message, and the
    cause chained; MemoryLimitError likewise where there is no memory; the end of the run from outside comes through as it is.
    """
    try:
        if waits:
            return function(*args, **kwargs)
        with one_thread:
            return function(*args, **kwargs)
    except (RunTimeoutError, RunCancelledError):
        raise
    except MemoryError as error:
        raise MemoryLimitError(f"{where}: {error}") from error
    except WorkerError as error:
        raise WorkerError(f"{where}: {error}") from error
    except KernelError as error:
        raise KernelError(f"{where}: {error}") from error
    except TreadleError as error:
        raise RunError(f"{where}: {error}") from error
    except Exception as error:
        raise RunError(f"{where} raised {type(error).__name__}: {error}") from error
