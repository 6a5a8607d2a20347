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
from treadle.immutable import immutable
from treadle.runtime.control import check_run
from treadle.runtime.numpy_threads import single_thread

P = ParamSpec("P")
R = TypeVar("R")


@immutable
class Caller:
    """The node for which a function is called. A function that `waits` may use as many threads in NumPy as it likes."""

    node: str
    op: str
    waits: bool

    def __str__(self) -> str:
        return f"node {self.node!r} ({self.op})"


def call_for_node(caller: Caller, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of `function` for `caller`. NumPy's BLAS uses one thread, unless it waits.

    Raises RunError with `caller` in its message and the cause chained; KernelError for bad data, WorkerError for a
    fault of a worker process, MemoryLimitError if there is no memory. RunTimeoutError and RunCancelledError pass
    through.
    """
    try:
        if caller.waits:
            return function(*args, **kwargs)
        with single_thread:
            return function(*args, **kwargs)
    except (RunTimeoutError, RunCancelledError):
        raise
    except MemoryError as error:
        raise MemoryLimitError(f"{caller}: {error}", node=caller.node) from error
    except WorkerError as error:
        raise WorkerError(f"{caller}: {error}", node=caller.node) from error
    except KernelError as error:
        raise type(error)(f"{caller}: {error}", node=caller.node) from error
    except TreadleError as error:
        raise RunError(f"{caller}: {error}", node=caller.node) from error
    except Exception as error:
        check_run()  # if the run has ended, that is why
        raise RunError(f"{caller} raised {type(error).__name__}: {error}", node=caller.node) from error
