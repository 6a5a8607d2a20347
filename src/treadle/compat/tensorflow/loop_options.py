"""tf.autograph.experimental.set_loop_options, which a loop over a tensor calls in its body."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from treadle.compat.tensorflow.shape import TensorShape


@dataclass(slots=True)
class LoopOptions:
    """The tensors with shape invariants, and the largest number of iterations (None for no limit)."""

    shapes: list[tuple[Any, TensorShape]] = field(default_factory=list)
    maximum_iterations: Any = None


class _Local(threading.local):
    def __init__(self) -> None:
        self.loops: list[LoopOptions] = []


_local = _Local()


@contextmanager
def collect_options() -> Iterator[LoopOptions]:
    """Collect the options that the body of a loop sets while it is traced in the block."""
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
    """Set options of the loop around the call.

    See tf.autograph.experimental.set_loop_options in TensorFlow's documentation.

    Args:
        parallel_iterations: has no effect.
        swap_memory: has no effect.
        maximum_iterations: the largest number of iterations.
        shape_invariants: pairs of a loop variable and its shape, with None for dimensions that may change.
    """
    if _local.loops:
        loop = _local.loops[-1]
        loop.shapes += [(tensor, TensorShape(shape)) for tensor, shape in shape_invariants or ()]
        loop.maximum_iterations = maximum_iterations


def invariant(value: Any, options: LoopOptions) -> TensorShape:
    """Return the shape that a loop variable with the initial value `value` has in all iterations."""
    found = next((shape for tensor, shape in options.shapes if tensor is value), None)
    return TensorShape(getattr(value, "shape", ())) if found is None else found
