"""What one run asks for beyond its inputs: limits, urgency, and what may end it early."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

from treadle import _native
from treadle.errors import InputError, RunCancelledError, RunTimeoutError

CancelToken = _native.CancelToken
"""`token.cancel()` ends every run that was given the token, from any thread; later runs with it end at once."""

MOST_PRIORITY = (1 << 31) - 1
_MOST_SECONDS = 1e15


class Request(NamedTuple):
    """Limits (0: not said here), priority, deadline (by time.monotonic) and token of a run.

    `own` limits go before these, those in `common` with other runs come after them, those of the team last. A `part` of the
    run around the calling step, if there is one, runs on that run's team, and has its limits before those of the team.
    """

    intra_op: int = 0
    inter_op: int = 0
    priority: int = 0
    timeout: float | None = None
    deadline: float | None = None
    cancel: CancelToken | None = None
    own: _native.RunLimits | None = None
    common: _native.RunLimits | None = None
    part: bool = False

    def left(self) -> float:
        """Seconds to the deadline, at least 0; NaN if there is none."""
        return math.nan if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check(self) -> None:
        """Raise what should have ended the run by now, if anything."""
        if self.cancel is not None and self.cancel.cancelled:
            raise self.was_cancelled()
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise self.ran_out()

    def ran_out(self) -> RunTimeoutError:
        """The error for a deadline that has passed."""
        if self.timeout is None:
            return RunTimeoutError("the run around this one did not end within its timeout")
        return RunTimeoutError(
            f"the run did not end within timeout={self.timeout:g} s (compiling and waiting its turn included); "
            "nothing was returned, and the session may be used again"
        )

    def was_cancelled(self) -> RunCancelledError:
        """The error for a cancelled run."""
        return RunCancelledError("the run was cancelled; nothing was returned, and the session may be used again")


PLAIN = Request()
"""Everything as the team has it."""
PART = Request(part=True)
"""Everything as the run around the calling step has it."""


def checked_timeout(value: Any) -> float | None:
    """Seconds, or None for no end. Raises InputError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InputError(f"run(timeout=): wanted seconds as an int or float, 0 or more, or None, got {value!r}")
    return math.inf if value > _MOST_SECONDS else float(value)


def checked_priority(value: Any) -> int:
    """An int that fits 32 bits. Raises InputError."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST_PRIORITY:
        raise InputError(f"run(priority=): wanted an int of 32 bits (higher goes first), got {value!r}")
    return value


def checked_token(value: Any) -> CancelToken | None:
    """A token or None. Raises InputError."""
    if value is not None and not isinstance(value, CancelToken):
        raise InputError(f"run(cancel=): wanted a treadle.CancelToken or None, got {value!r}")
    return value


def check_run() -> None:
    """For Python tasks that take long: raise what should end the run they are part of, if anything.

    Raises RunTimeoutError or RunCancelledError. Takes well under a microsecond; does nothing outside a run.
    """
    try:
        _native.check_run()
    except _native.RunTimeout:
        raise PLAIN.ran_out() from None
    except _native.RunCancelled:
        raise PLAIN.was_cancelled() from None
