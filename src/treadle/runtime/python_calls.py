"""Calls of Python functions in a run."""

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
from treadle.runtime.numpy_threads import single_thread

P = ParamSpec("P")
R = TypeVar("R")


def call_for_node(where: str, waits: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of `function` for the node `where`. NumPy's BLAS uses one thread, unless the function `waits`.

    Raises RunError with `where` in its message and the cause chained; KernelError for bad data, WorkerError for a fault
    of a worker process, MemoryLimitError if there is no memory. RunTimeoutError and RunCancelledError pass through.
    """
    try:
        if waits:
            return function(*args, **kwargs)
        with single_thread:
            return function(*args, **kwargs)
    except (RunTimeoutError, RunCancelledError):
        raise
    except MemoryError as error:
        raise MemoryLimitError(f"{where}: {error}") from error
    except WorkerError as error:
        raise WorkerError(f"{where}: {error}") from error
    except KernelError as error:
        raise type(error)(f"{where}: {error}") from error
    except TreadleError as error:
        raise RunError(f"{where}: {error}") from error
    except Exception as error:
        raise RunError(f"{where} raised {type(error).__name__}: {error}") from error
