"""What the calling thread is inside of: a recording, a call of a script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.compat.torch.recording import Recording
    from treadle.compat.torch.tasks import Call


class _State(threading.local):
    """The state of one thread."""

    recording: Recording | None = None
    call: Call | None = None


STATE = _State()


def current() -> Recording | None:
    """Returns the recording of the calling thread, if it is inside one."""
    return STATE.recording


def current_call() -> Call | None:
    """Returns the scripted call that the calling thread is inside of, if any."""
    return STATE.call


@contextmanager
def recording_into(recording: Recording | None) -> Iterator[None]:
    """Makes `recording` (None: none) the calling thread's while the block runs."""
    before = STATE.recording
    STATE.recording = recording
    try:
        yield
    finally:
        STATE.recording = before
