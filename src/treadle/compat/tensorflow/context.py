"""Where ops go when they are called: into a graph, or (eagerly) to immediate execution."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.scopes import CURRENT, eager_scope


class _Process:
    def __init__(self) -> None:
        self.graph_mode = False
        self.sessions = 0
        self.default: Graph | None = None
        self.seed: int | None = None


_process = _Process()


def current_graph() -> Graph | None:
    """Return the graph that ops are added to; None while execution is eager."""
    if CURRENT.graphs:
        return CURRENT.graphs[-1]
    return get_default_graph() if _process.graph_mode or _process.sessions else None


def get_default_graph() -> Graph:
    """Return the innermost graph of as_default() blocks, else the graph of the process.

    See tf.compat.v1.get_default_graph in TensorFlow's documentation.

    Returns:
        The default Graph. The one of the process is created when it is first needed.
    """
    if CURRENT.graphs and CURRENT.graphs[-1] is not None:
        return CURRENT.graphs[-1]
    if _process.default is None:
        _process.default = Graph()
    return _process.default


def reset_default_graph() -> None:
    """Discard the default graph of the process; the next op creates another one.

    See tf.compat.v1.reset_default_graph in TensorFlow's documentation.

    Raises:
        AssertionError: inside a block of a graph.
    """
    if CURRENT.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _process.default = None


def process_seed() -> int | None:
    """Return the seed of eager execution, which functions traced later take."""
    return _process.seed


def set_process_seed(seed: int | None) -> None:
    """Set the seed of eager execution."""
    _process.seed = seed


def eagerly_outside() -> AbstractContextManager[None]:
    """Lift ops of the block out of functions that are being traced: to eager execution, or to the default graph.

    See tf.init_scope in TensorFlow's documentation.
    """
    return nullcontext() if _process.graph_mode else eager_scope()


def executing_eagerly() -> bool:
    """Return whether an op called now is computed at once.

    See tf.executing_eagerly in TensorFlow's documentation.
    """
    return current_graph() is None


def disable_eager_execution() -> None:
    """Add ops outside any graph to the default graph from now on, in all threads.

    See tf.compat.v1.disable_eager_execution in TensorFlow's documentation. Here it may be called at any time.
    """
    _process.graph_mode = True


def enable_eager_execution() -> None:
    """Compute ops outside any graph at once from now on, in all threads.

    See tf.compat.v1.enable_eager_execution in TensorFlow's documentation. Here it may be called at any time.
    """
    _process.graph_mode = False


def session_opened() -> None:
    """Count an open session of the default graph. While there are any, ops outside graphs go into that graph."""
    _process.sessions += 1


def session_closed() -> None:
    """Count a session of the default graph as closed."""
    _process.sessions -= 1
