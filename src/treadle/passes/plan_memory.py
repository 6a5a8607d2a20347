"""Where every value lives: inputs and outputs in the caller's memory, the rest in one arena.

Two values share memory only if a dependency path orders every use of the one before the making of the
other. So sharing adds no order: it never takes parallelism away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from treadle.errors import LimitError
from treadle.graph.graph import Graph
from treadle.graph.shape import is_open
from treadle.graph.value import Value
from treadle.passes.choose_kernels import Lowered
from treadle.passes.lifetimes import Lifetimes
from treadle.passes.lower.base import nbytes
from treadle.plan.call import Call
from treadle.plan.first_fit import first_fit
from treadle.plan.packed import kept
from treadle.plan.plan import Buffer, Home, Place
from treadle.records import dataclass

MAX_ARENA = 1 << 40


@dataclass(slots=True)
class Memory:
    """Where every value lies. `arena_bytes` is the size of the arena, or 0 if sizes are open.

    With open sizes offsets in the arena are not known yet. `rivals` then says for each buffer of the arena, by number,
    which others it must not overlap.
    """

    buffers: list[Buffer] = field(default_factory=list)
    places: dict[Value, Place] = field(default_factory=dict)
    arena_bytes: int = 0
    rivals: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def add(self, value: Value, buffer: Buffer) -> None:
        """Adds a buffer that holds `value` at its start."""
        self.places[value] = Place(len(self.buffers))
        self.buffers.append(buffer)


def plan_memory(graph: Graph, lowered: Lowered, after: Sequence[set[int]], *, open_sizes: bool = False) -> Memory:
    """Give each value of `lowered` a place; in the arena only at binding if `open_sizes` or a size is open.

    Raises LimitError if the arena would exceed 2**40 bytes.
    """
    memory = Memory()
    places = memory.places
    for number, value in enumerate(graph.inputs):
        memory.add(value, Buffer(Home.INPUT, nbytes(value), number))
    for number, value in enumerate(graph.outputs):
        root, _ = lowered.root(value)
        memory.add(root, Buffer(Home.OUTPUT, nbytes(value), number))

    users, writers = _accesses(lowered)
    inner: list[Value] = []
    for value in users:
        if value in places:
            continue
        if value.data is not None:
            memory.add(value, Buffer(Home.CONSTANT, nbytes(value), data=kept(value.data)))
        else:
            inner.append(value)

    lifetimes = Lifetimes(inner, users, writers, after)
    if open_sizes or any(is_open(value.static_shape) for value in users):
        _add_open(memory, inner, lifetimes, {value: [lowered.calls[at] for at in users[value]] for value in inner})
    else:
        offsets, memory.arena_bytes = _assign(inner, lifetimes)
        for value in inner:
            memory.add(value, Buffer(Home.ARENA, nbytes(value), offsets[value]))
    for call in lowered.calls:
        for value in (*call.writes, *call.reads):
            root, offset = lowered.root(value)
            places[value] = Place(places[root].buffer, offset)
    return memory


def _add_open(memory: Memory, values: Sequence[Value], lifetimes: Lifetimes, users: dict[Value, list[Call]]) -> None:
    for value in values:
        memory.add(value, Buffer(Home.ARENA, nbytes(value) * _taken(users[value])))
    number = {value: memory.places[value].buffer for value in values}
    for value in values:
        memory.rivals[number[value]] = tuple(number[other] for other in lifetimes.rivals(value))


def _taken(calls: Sequence[Call]) -> int:
    """Returns 1 for sizes at which `calls` run: 0 for others, if all are of one variant."""
    variant = calls[0].variant
    if variant is None or any(call.variant != variant for call in calls):
        return 1
    return variant.taken


def _accesses(lowered: Lowered) -> tuple[dict[Value, list[int]], dict[Value, list[int]]]:
    """For the root of each value: the calls that read or write it, and those that write it (none if it is empty)."""
    users: dict[Value, list[int]] = {}
    writers: dict[Value, list[int]] = {}
    for number, call in enumerate(lowered.calls):
        for value in (*call.writes, *call.reads):
            root = lowered.root(value)[0]
            users.setdefault(root, []).append(number)
            writers.setdefault(root, [])
        for value in call.writes:
            writers[lowered.root(value)[0]].append(number)
    return users, writers


def _assign(values: Sequence[Value], lifetimes: Lifetimes) -> tuple[dict[Value, int], int]:
    """Offsets of `values` in the arena, largest first, each at the lowest place that is free of its rivals."""
    largest_first = sorted(values, key=lambda value: (-nbytes(value), value.name))
    offsets, arena = first_fit(((value, nbytes(value)) for value in largest_first), lifetimes.rivals)
    if arena > MAX_ARENA:
        raise LimitError(f"the graph's intermediate values need {arena} bytes; at most {MAX_ARENA} are allowed")
    return offsets, arena
