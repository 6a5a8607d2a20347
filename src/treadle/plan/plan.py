"""Plans: kernel calls grouped into tasks, and where every value lives."""

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.plan.call import Call
from treadle.plan.target import Target
from treadle.records import dataclass


class Home(Enum):
    """Where a buffer lives."""

    ARENA = "arena"
    CONSTANT = "constant"
    INPUT = "input"
    OUTPUT = "output"


@dataclass(slots=True)
class Buffer:
    """A piece of memory. `position` is the byte offset in the arena, or the number of the input or output."""

    home: Home
    size: int
    position: int = 0
    data: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lies: a buffer's number and a byte offset in it."""

    buffer: int
    offset: int = 0


@dataclass(slots=True)
class Task:
    """Consecutive calls that the scheduler starts as one. Only a task of one call is shared by workers.

    `after` are the numbers of the tasks it waits for; `priority` is the estimated time in ns from its
    start to the end of the graph along the longest path.
    """

    first: int
    count: int
    after: tuple[int, ...] = ()
    priority: float = 0.0
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a plan.

    The caller gives the memory of an output that `is_given`, with what the output begins with in it.
    A run finds the shape of an output that is `sized_in_run`; its `shape` means nothing.
    """

    name: str
    dtype: DType
    shape: StaticShape
    is_given: bool = False
    sized_in_run: bool = False


@dataclass(slots=True)
class Plan:
    """Everything the code generator and the runtime need to know of a specialised graph.

    Sizes, arguments and costs of a graph with open dimensions are expressions, which binding evaluates.
    """

    target: Target
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    calls: list[Call] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    places: dict[Value, Place] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    arena_bytes: int = 0
    scratch_bytes: int = 0
    rivals: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """For each buffer in the arena, by number, those that it must not overlap; only where sizes are open."""


def with_bodies(plan: Plan) -> Iterator[Plan]:
    """Yields `plan`, then the plans of the bodies in it, at any depth."""
    yield plan
    for call in plan.calls:
        for body in call.plans:
            yield from with_bodies(body)
