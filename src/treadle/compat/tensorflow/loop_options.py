"""tf.autograph.experimental.set_loop_options: what a loop over a tensor may be told from inside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from treadle.compat.tensorflow.shape import TensorShape


@dataclass(slots=True)
class LoopOptions:
    """The (tensor, shape) pairs whose shape may change, and the most iterations (None: any number)."""

    shapes: list[tuple[Any, TensorShape]] = field(default_factory=list)
    maximum_iterations: Any = None


class _Local(threading.local):
    def __init__(self) -> None:
        self.loops: list[LoopOptions] = []


_local = _Local()


@contextmanager
def collect_options() -> Iterator[LoopOptions]:
    """What the body of a loop that is traced in the block asks for."""
    _local.loops.append(LoopOptions())
    try:
        yield _local.loops[-1]
    finally:
        _local.loops.pop()


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Inside a loop of a tf.function: shapes of its variables that may change, and how often it runs at most."""
    if _local.loops:
        loop = _local.loops[-1]
        loop.shapes += [(tensor, TensorShape(shape)) for tensor, shape in shape_invariants or ()]
        loop.maximum_iterations = maximum_iterations


def invariant(value: Any, options: LoopOptions) -> TensorShape:
    """The shape that a loop variable which begins as `value` has all along."""
    found = next((shape for tensor, shape in options.shapes if tensor is value), None)
    return TensorShape(getattr(value, "shape", ())) if found is None else found
