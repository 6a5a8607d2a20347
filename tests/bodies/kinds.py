"""Programs with branches and loops inside one another, of every kind of body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.unit.runtime.slow_models import X as TASK_INPUT
from tests.unit.runtime.slow_models import python_tasks

Array = np.ndarray[Any, Any]
SIZE = 96
"""Of the matrices. A product of two is worth sharing among threads."""
ENDLESS = 1 << 40
"""A number of iterations that no run reaches."""
STEP = "step"
"""What most kinds call the node that an iteration of the innermost loop computes."""
OTHER = "other"
"""What most kinds call the nodes of sides that no run takes."""

Run = Callable[..., list[Array]]
"""(count, **options of Session.run) -> the results of a run whose innermost loop has `count` iterations."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of body.

    Attributes:
        make: Returns a program of so many bodies inside one another.
        expected: (depth, count) -> what that program gives.
        deepest: How many bodies there are in the deepest program.
        gives_way: Whether a run of higher priority may begin between two steps of a body.
        step: Part of the name of the node that an iteration of the innermost loop computes.
        other: Part of the names of the nodes of sides that no run takes.
    """

    make: Callable[[int], Run]
    expected: Callable[[int, int], Array]
    deepest: int = 30
    gives_way: bool = True
    step: str = STEP
    other: str = OTHER


def given() -> Array:
    """Returns the matrix with which each program begins."""
    return np.random.default_rng(3).standard_normal((SIZE, SIZE)).astype(np.float32)


def weights() -> Array:
    """Returns the matrix with which each iteration multiplies."""
    return (np.random.default_rng(4).standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)).astype(np.float32)


def products(depth: int, count: int) -> Array:
    """Returns what iterations of tanh(x @ weights) give."""
    x = given()
    for _ in range(count):
        x = np.tanh(x @ weights())
    return x


WIDE = (64, SIZE)
"""A shape that transposing changes."""


def transposes(depth: int, count: int) -> Array:
    """Returns what iterations of tanh(1.5 x^T) give, and one more transposing for each body around them."""
    x = given()[: WIDE[0]]
    for _ in range(count):
        x = np.tanh(np.float32(1.5) * x.T)
    return x.T if depth % 2 == 0 else x


def as_task(call: Callable[[int], Any]) -> Run:
    """Returns runs of a Python task that calls `call` with the number of iterations: runs in it end with them."""

    def run(count: int, **options: Any) -> list[Array]:
        results: list[Array] = []
        task = python_tasks([lambda: results.append(np.asarray(call(count)))])
        task.run(TASK_INPUT, **options)
        return results[-1:]

    return run
