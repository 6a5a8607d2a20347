"""Where values live."""

from __future__ import annotations

import random
from itertools import combinations

from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.passes.build_tasks import dependencies
from treadle.passes.choose_kernels import Lowered
from treadle.passes.plan_memory import plan_memory
from treadle.plan.call import Call
from treadle.plan.first_fit import ALIGNMENT
from treadle.plan.plan import Buffer, Home, Place


def random_dag(seed: int, count: int) -> tuple[Graph, Lowered]:
    """A graph of `count` calls, each reading one to three earlier values, and its lowering."""
    rng = random.Random(seed)
    graph = Graph()
    values: list[Value] = [graph.input("x", f32, (rng.randrange(1, 500),))]
    lowered = Lowered()
    for number in range(count):
        reads = tuple(rng.sample(values, min(len(values), rng.randrange(1, 4))))
        value = graph.value(f"v{number}", f32, (rng.randrange(1, 500),))
        lowered.calls.append(Call(f"n{number}", "op", (value,), reads, function=lambda arrays: arrays))
        values.append(value)
    graph.outputs = [values[-1]]
    return graph, lowered


def ancestors(after: list[set[int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for before in after:
        found.append(set(before).union(*(found[other] for other in before)))
    return found


def overlap(a: tuple[Buffer, Place], b: tuple[Buffer, Place]) -> bool:
    (one, _), (other, _) = a, b
    return one.position < other.position + other.size and other.position < one.position + one.size


def test_values_share_memory_only_if_a_path_orders_them() -> None:
    """
    Of two values in the same bytes, every use of one precedes the making of the other by a path of dependencies.
    """
    shared = 0
    for seed in range(30):
        graph, lowered = random_dag(seed, 40)
        after = dependencies(lowered)
        before = ancestors(after)
        memory = plan_memory(graph, lowered, after)
        buffers, places = memory.buffers, memory.places
        users: dict[Value, set[int]] = {}
        maker: dict[Value, int] = {}
        for number, call in enumerate(lowered.calls):
            for value in (*call.reads, *call.writes):
                users.setdefault(value, set()).add(number)
            maker[call.writes[0]] = number
        inner = [value for value in maker if buffers[places[value].buffer].home is Home.ARENA]
        for a, b in combinations(inner, 2):
            if overlap((buffers[places[a].buffer], places[a]), (buffers[places[b].buffer], places[b])):
                shared += 1
                assert users[a] <= before[maker[b]] or users[b] <= before[maker[a]]

    assert shared > 100


def test_a_chain_needs_two_buffers() -> None:
    """
    In a chain of equal values only the one being read and the one being written are alive.
    """
    graph = Graph()
    value = graph.input("x", f32, (1000,))
    lowered = Lowered()
    for number in range(10):
        result = graph.value(f"v{number}", f32, (1000,))
        lowered.calls.append(Call(f"n{number}", "op", (result,), (value,), function=lambda arrays: arrays))
        value = result
    graph.outputs = [value]
    size = -(-4000 // ALIGNMENT) * ALIGNMENT

    arena = plan_memory(graph, lowered, dependencies(lowered)).arena_bytes

    assert arena == 2 * size


def test_independent_branches_share_nothing() -> None:
    """
    Branches that may run at once have memory of their own.
    """
    graph = Graph()
    x = graph.input("x", f32, (100,))
    lowered = Lowered()
    ends = []
    for branch in range(4):
        middle, end = (graph.value(f"b{branch}.{part}", f32, (100,)) for part in range(2))
        lowered.calls.append(Call("a", "op", (middle,), (x,), function=lambda arrays: arrays))
        lowered.calls.append(Call("b", "op", (end,), (middle,), function=lambda arrays: arrays))
        ends.append(end)
    total = graph.value("total", f32, (100,))
    lowered.calls.append(Call("join", "op", (total,), tuple(ends), function=lambda arrays: arrays))
    graph.outputs = [total]
    size = -(-400 // ALIGNMENT) * ALIGNMENT

    arena = plan_memory(graph, lowered, dependencies(lowered)).arena_bytes

    assert arena == 8 * size


def test_an_alias_lies_in_the_memory_of_its_root() -> None:
    """
    A value that is part of another gets the same buffer and its own offset.
    """
    graph = Graph()
    x = graph.input("x", f32, (8,))
    whole, part, end = (graph.value(name, f32, shape) for name, shape in (("w", (8,)), ("p", (4,)), ("e", (4,))))
    lowered = Lowered(
        [
            Call("a", "op", (whole,), (x,), function=lambda arrays: arrays),
            Call("b", "op", (end,), (part,), function=lambda arrays: arrays),
        ],
        {part: (whole, 16)},
    )
    graph.outputs = [end]

    after = dependencies(lowered)
    places = plan_memory(graph, lowered, after).places

    assert after == [set(), {0}]
    assert places[part].buffer == places[whole].buffer
    assert places[part].offset == 16
