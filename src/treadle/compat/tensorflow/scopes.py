"""What the `with` blocks around a thread's code make current: graphs, devices and sessions, innermost last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Graph
    from treadle.compat.tensorflow.session import Session


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph | None] = []  # None: eager execution inside a graph's block
        self.devices: list[str] = []
        self.sessions: list[Session] = []


CURRENT = _Scopes()


@contextmanager
def enter_graph(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the current one of this thread while the block runs."""
    CURRENT.graphs.append(graph)
    try:
        yield graph
    finally:
        CURRENT.graphs.pop()


@contextmanager
def eager_scope() -> Iterator[None]:
    """Compute the ops of this thread at once while the block runs, even inside a graph's block."""
    CURRENT.graphs.append(None)
    try:
        yield
    finally:
        CURRENT.graphs.pop()


def current_device() -> str:
    """Return the innermost device that tf.device requested, "" for none."""
    return CURRENT.devices[-1] if CURRENT.devices else ""


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Request the device `name` for the ops of the block."""
    CURRENT.devices.append(name)
    try:
        yield
    finally:
        CURRENT.devices.pop()


def get_default_session() -> Session | None:
    """Return the innermost session of this thread's `with` blocks.

    See tf.compat.v1.get_default_session in TensorFlow's documentation.
    """
    return CURRENT.sessions[-1] if CURRENT.sessions else None


def default_session(session: Session | None) -> Session:
    """Return `session`, or the default one for None. Raises ValueError if there is neither."""
    found = session or get_default_session()
    if found is None:
        raise ValueError("Cannot use the default session: no session is open; write `with tf.Session() as session:`")
    return found
