"""Where ops go that are called now: into a graph, or (eagerly) to the machine at once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.scopes import CURRENT, eagerly


class _Process:
    def __init__(self) -> None:
        self.graph_mode = False
        self.sessions = 0
        self.default: Graph | None = None
        self.seed: int | None = None


_process = _Process()


def current_graph() -> Graph | None:
    """The graph that ops are added to; None while execution is eager."""
    if CURRENT.graphs:
        return CURRENT.graphs[-1]
    return get_default_graph() if _process.graph_mode or _process.sessions else None


def get_default_graph() -> Graph:
    """The innermost graph made current by as_default(), else the process's own."""
    if CURRENT.graphs and CURRENT.graphs[-1] is not None:
        return CURRENT.graphs[-1]
    if _process.default is None:
        _process.default = Graph()
    return _process.default


def reset_default_graph() -> None:
    """Forget the process's default graph: the next op starts another."""
    if CURRENT.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _process.default = None


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
