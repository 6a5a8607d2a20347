"""The request of a run: its limits, its priority, and what may end it early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from treadle import _native
from treadle.errors import InputError, RunCancelledError, RunError, RunTimeoutError

CancelToken = _native.CancelToken
"""Ends every run that was given the token: `token.cancel()`, from any thread, at any time. Later runs with it end at
once.

Example:
    >>> token = treadle.CancelToken()
    >>> future = session.run_async({"x": x}, cancel=token)
    >>> token.cancel()
    >>> token.cancelled
    True
"""

MOST_PRIORITY = (1 << 31) - 1
_MOST_SECONDS = 1e15


class Request(NamedTuple):
    """The limits (0: none here), priority, deadline (of time.monotonic(), in seconds) and token of a run.

    A limit is the first that is set of: `own`, which may change during the run; `intra_op` and `inter_op`; `common`,
    shared with other runs of the session; those of the run around the calling step, if this one is `nested`; those of
    the team. A nested run uses the team of the run around it.
    """

    intra_op: int = 0
    inter_op: int = 0
    priority: int = 0
    timeout: float | None = None
    deadline: float | None = None
    cancel: CancelToken | None = None
    own: _native.RunLimits | None = None
    common: _native.RunLimits | None = None
    nested: bool = False

    def seconds_left(self) -> float:
        """Return the seconds to the deadline, at least 0; NaN if there is none."""
        return math.nan if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check(self) -> None:
        """Raise RunCancelledError or RunTimeoutError if the run should have ended by now."""
        if self.cancel is not None and self.cancel.cancelled:
            raise self.cancelled_error()
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise self.timeout_error()

    def timeout_error(self) -> RunTimeoutError:
        """Return the error for a deadline that has passed."""
        if self.timeout is None:
            return RunTimeoutError("the run around this one did not end within its timeout")
        return RunTimeoutError(
            f"the run did not end within timeout={self.timeout:g} s (compiling and waiting its turn included); "
            "nothing was returned, and the session may be used again"
        )

    def cancelled_error(self) -> RunCancelledError:
        """Return the error for a cancelled run."""
        return RunCancelledError("the run was cancelled; nothing was returned, and the session may be used again")


DEFAULT = Request()
"""The request of a run that sets nothing."""
NESTED = Request(nested=True)
"""The request of a run that is a part of the run around the calling step."""


class _CompileEnded(BaseException):
    """The run for which is compiled should end with `error`. What compiles catches errors of models, but not this."""

    def __init__(self, error: RunError) -> None:
        super().__init__(str(error))
        self.error = error


_compiling_for: ContextVar[Request | None] = ContextVar("compiling_for", default=None)
"""The run that waits for what the thread compiles."""


@contextmanager
def compiling_for(request: Request) -> Iterator[None]:
    """Return a context manager in which check_compile() ends the block when the run of `request` should end.

    The block then raises RunTimeoutError or RunCancelledError.
    """
    before = _compiling_for.set(request)
    try:
        yield
    except _CompileEnded as ended:
        raise ended.error from None
    finally:
        _compiling_for.reset(before)


def check_compile() -> None:
    """End the compile if the run that waits for it should end.

    Passes, lowerings and code generation call it between their steps.
    """
    request = _compiling_for.get()
    if request is None:
        return
    try:
        request.check()
        check_run()
    except RunError as error:
        raise _CompileEnded(error) from None


def checked_timeout(value: Any) -> float | None:
    """Return a timeout in seconds, None for no end. Raises InputError for another value."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InputError(f"run(timeout=): wanted seconds as an int or float, 0 or more, or None, got {value!r}")
    return math.inf if value > _MOST_SECONDS else float(value)


def checked_priority(value: Any) -> int:
    """Return a priority, an int of 32 bits. Raises InputError for another value."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST_PRIORITY:
        raise InputError(f"run(priority=): wanted an int of 32 bits (higher goes first), got {value!r}")
    return value


def checked_token(value: Any) -> CancelToken | None:
    """Return a token or None. Raises InputError for another value."""
    if value is not None and not isinstance(value, CancelToken):
        raise InputError(f"run(cancel=): wanted a treadle.CancelToken or None, got {value!r}")
    return value


def check_run() -> None:
    """Raise an error if the run around the calling Python function should end.

    A Python function that takes long calls it now and then, so that its run ends early too. A call takes well under a
    microsecond. Outside a run it does nothing.

    Raises:
        RunTimeoutError: The timeout of the run has passed.
        RunCancelledError: The run was cancelled.

    Example:
        >>> def search(x):
        ...     for candidate in candidates(x):
        ...         check_run()
        ...         ...
    """
    _in_run(_native.check_run)


def begin_iteration(number: int) -> None:
    """Do what check_run() does at the beginning of iteration `number` of a loop that the calling function drives.

    The timeline shows the number with what runs inside that iteration.
    """
    _in_run(_native.begin_iteration, number)


def _in_run(function: Callable[..., None], *args: int) -> None:
    try:
        function(*args)
    except _native.RunTimeout:
        raise DEFAULT.timeout_error() from None
    except _native.RunCancelled:
        raise DEFAULT.cancelled_error() from None
