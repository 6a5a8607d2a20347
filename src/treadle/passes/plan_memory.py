"""Where every value lives: inputs and outputs in the caller's memory, the rest in one arena.

Two values share memory only if a dependency path orders every use of the one before the making of the
other. So sharing adds no order: it never takes parallelism away.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import LimitError
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.passes.choose_kernels import Lowered
from treadle.passes.lower.base import nbytes
from treadle.plan.packed import kept
from treadle.plan.plan import Buffer, Home, Place

ALIGNMENT = 64
MAX_ARENA = 1 << 40
MAX_SHARED_CALLS = 1 << 14
"""Plans with more calls than this share no memory: the ordering of all pairs would not fit in memory."""


def plan_memory(
    graph: Graph, lowered: Lowered, after: Sequence[set[int]]
) -> tuple[list[Buffer], dict[Value, Place], int]:
    """Give each value of `lowered` a place. Returns the buffers, the places and the size of the arena in bytes.

    Raises LimitError if the arena would exceed 2**40 bytes.
    """
    buffers: list[Buffer] = []
    places: dict[Value, Place] = {}

    def add(value: Value, buffer: Buffer) -> None:
        places[value] = Place(len(buffers))
        buffers.append(buffer)

    for number, value in enumerate(graph.inputs):
        add(value, Buffer(Home.INPUT, nbytes(value), number))
    for number, value in enumerate(graph.outputs):
        root, _ = lowered.root(value)
        add(root, Buffer(Home.OUTPUT, nbytes(value), number))

    users, writers = _accesses(lowered)
    inner: list[Value] = []
    for value in users:
        if value in places:
            continue
        if value.data is not None:
            add(value, Buffer(Home.CONSTANT, nbytes(value), data=kept(value.data)))
        else:
            inner.append(value)

    offsets, arena = _assign(inner, users, writers, after)
    for value in inner:
        add(value, Buffer(Home.ARENA, nbytes(value), offsets[value]))
    for call in lowered.calls:
        for value in (*call.writes, *call.reads):
            root, offset = lowered.root(value)
            places[value] = Place(places[root].buffer, offset)
    return buffers, places, arena


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


def _assign(
    values: Sequence[Value],
    users: dict[Value, list[int]],
    writers: dict[Value, list[int]],
    after: Sequence[set[int]],
) -> tuple[dict[Value, int], int]:
    """Offsets of `values` in the arena, largest first, each at the lowest place that is free of its rivals."""
    share = len(after) <= MAX_SHARED_CALLS
    earlier: list[int] = []
    if share:
        for before in after:
            mask = 0
            for other in before:
                mask |= earlier[other] | 1 << other
            earlier.append(mask)
    used, late = ({}, {}) if not share else _masks(values, users, writers, earlier)
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[Value, int] = {}
    arena = 0
    for value in sorted(values, key=lambda v: (-nbytes(v), v.name)):
        size = -(-max(nbytes(value), 1) // ALIGNMENT) * ALIGNMENT
        mine, not_before = (used[value], late[value]) if share else (1, 1)
        rivals = sorted((start, end) for start, end, uses, behind in placed if uses & not_before and mine & behind)
        offset = 0
        for start, end in rivals:
            if offset + size <= start:
                break
            offset = max(offset, end)
        offsets[value] = offset
        placed.append((offset, offset + size, mine, not_before))
        arena = max(arena, offset + size)
    if arena > MAX_ARENA:
        raise LimitError(f"the graph's intermediate values need {arena} bytes; at most {MAX_ARENA} are allowed")
    return offsets, arena


def _masks(
    values: Sequence[Value],
    users: dict[Value, list[int]],
    writers: dict[Value, list[int]],
    earlier: Sequence[int],
) -> tuple[dict[Value, int], dict[Value, int]]:
    """The calls that use each of `values`, and those that need not have ended when it is first written, as bits.

    One value precedes another if no call that uses the one is among the latter of the other.
    """
    used, late = {}, {}
    for value in values:
        used[value] = sum(1 << number for number in set(users[value]))
        ended = -1
        for writer in writers[value]:
            ended &= earlier[writer]
        late[value] = ~ended
    return used, late
