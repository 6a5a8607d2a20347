"""Which recording the calling thread is inside of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.compat.torch.recording import Recording


class _State(threading.local):
    recording: Recording | None = None


STATE = _State()


def current() -> Recording | None:
    """The recording of the calling thread, if it is inside one."""
    return STATE.recording


@contextmanager
def recording_into(recording: Recording | None) -> Iterator[None]:
    """Make `recording` (None: none) the calling thread's while the block runs."""
    before = STATE.recording
    STATE.recording = recording
    try:
        yield
    finally:
        STATE.recording = before
