"""The options of one run."""

from __future__ import annotations

import time
from typing import TypedDict

from treadle import _native
from treadle.runtime import threads
from treadle.runtime.control import CancelToken, Request, checked_priority, checked_timeout, checked_token
from treadle.runtime.pool import Pool


class RunOptions(TypedDict, total=False):
    """The options that `Session.run` and `Session.run_async` take by keyword. Each may be left out.

    Attributes:
        intra_op: How many workers may share one op of this run. 0: automatic. None (the default): the session's limit.
        inter_op: How many independent ops of this run may be in progress at once. 0: automatic. None (the default): the
            session's limit.
        pool: The pool that runs it. None (the default): the session's.
        timeout: Seconds until the run is ended, counted from the call: compiling and waiting for a turn are included.
            None (the default): no end.
        cancel: A token whose `cancel()` ends the run. None (the default): none.
        priority: A 32-bit int, 0 by default. Of runs that wait for a team, the one with the highest priority goes
            first; of equal ones the oldest, but a long run gives way to shorter ones at its next op.
    """

    intra_op: int | None
    inter_op: int | None
    pool: Pool | None
    timeout: float | None
    cancel: CancelToken | None
    priority: int


def check_names(options: RunOptions, function: str) -> None:
    """Raise TypeError if `function` was called with an option that there is not."""
    for name in options:
        if name not in RunOptions.__optional_keys__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def request_of(options: RunOptions, plain: Request, own: _native.RunLimits | None = None) -> Request:
    """Return the request of a run with these `options`; `plain` is that of a run without any.

    Raises ThreadSettingError or InputError for a value that cannot be.
    """
    if not options and own is None:
        return plain
    intra_op, inter_op = options.get("intra_op"), options.get("inter_op")
    timeout, cancel, priority = options.get("timeout"), options.get("cancel"), options.get("priority", 0)
    seconds = checked_timeout(timeout)
    return Request(
        threads.validated("intra_op", intra_op, "run(intra_op=)"),
        threads.validated("inter_op", inter_op, "run(inter_op=)"),
        checked_priority(priority),
        seconds,
        None if seconds is None else time.monotonic() + seconds,
        checked_token(cancel),
        own,
        plain.common,
    )
