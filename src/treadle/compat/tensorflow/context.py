"""Where ops go that are called now: into a graph, or (eagerly) to the machine at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Graph


class _Local(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph | None] = []  # None: eager inside a graph
        self.devices: list[str] = []


class _Process:
    def __init__(self) -> None:
        self.graph_mode = False
        self.sessions = 0
        self.default: Graph | None = None
        self.seed: int | None = None


_local = _Local()
_process = _Process()


def current_graph() -> Graph | None:
    """The graph that ops are added to; None while execution is eager."""
    if _local.graphs:
        return _local.graphs[-1]
    return get_default_graph() if _process.graph_mode or _process.sessions else None


def get_default_graph() -> Graph:
    """The innermost graph made current by as_default(), else the process's own."""
    from treadle.compat.tensorflow.graph import Graph

    if _local.graphs and _local.graphs[-1] is not None:
        return _local.graphs[-1]
    if _process.default is None:
        _process.default = Graph()
    return _process.default


def reset_default_graph() -> None:
    """Forget the process's default graph: the next op starts another."""
    if _local.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _process.default = None


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the current one of this thread while the block runs."""
    _local.graphs.append(graph)
    try:
        yield graph
    finally:
        _local.graphs.pop()


@contextmanager
def eagerly() -> Iterator[None]:
    """Let ops of this thread be computed at once while the block runs, whatever is around it."""
    _local.graphs.append(None)
    try:
        yield
    finally:
        _local.graphs.pop()


def process_seed() -> int | None:
    """The seed of eager execution, which functions traced from now on take."""
    return _process.seed


def set_process_seed(seed: int | None) -> None:
    """Set the seed of eager execution."""
    _process.seed = seed


def eagerly_outside() -> AbstractContextManager[None]:
    """Outside functions that are being traced: eagerly, or in the default graph of graph mode."""
    return nullcontext() if _process.graph_mode else eagerly()


def executing_eagerly() -> bool:
    """Whether an op called now is computed at once."""
    return current_graph() is None


def disable_eager_execution() -> None:
    """From now on ops outside any graph go into the default graph, in every thread."""
    _process.graph_mode = True


def enable_eager_execution() -> None:
    """From now on ops outside any graph are computed at once, in every thread."""
    _process.graph_mode = False


def session_opened() -> None:
    """While sessions of the default graph are open, ops outside any graph go into it."""
    _process.sessions += 1


def session_closed() -> None:
    """One session of the default graph fewer is open."""
    _process.sessions -= 1


def current_device() -> str:
    """The innermost device asked for by tf.device, "" for none."""
    return _local.devices[-1] if _local.devices else ""


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Ask for the device `name` while the block runs."""
    _local.devices.append(name)
    try:
        yield
    finally:
        _local.devices.pop()
