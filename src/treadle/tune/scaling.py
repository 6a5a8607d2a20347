"""How far a model gains from more cores, by simulation, and what holds it there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from treadle.plan.machine import MachineModel
from treadle.tune.simulate import Costs, Simulated, simulate
from treadle.tune.space import Limits
from treadle.tune.task_graph import TaskGraph

WORTH = 1.1
"""More cores gain if a run takes this much longer without them."""

_NOTICEABLE = 1.05
"""Something holds a run if it would be so much faster without it."""

_PLENTY = 8
"""Chunks of an op for each core that balance the load whatever else happens."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """What a simulation says of a number of cores.

    Attributes:
        cores: The number.
        limits: The thread limits that are best there.
        found: What runs take with these.
        speedup: How many times as fast as one core: a run of a single client, the throughput of several.
        held_by: What costs most: "memory", "cache", "lock", "wake-ups", "chunks" (too few of an op to share), "span"
            (ops that wait for each other, and parts of them that one worker executes), or "nothing" if cores are used
            well.
        gain: How many times as fast runs would be without it; 1 for "span" and "nothing".
    """

    cores: int
    limits: Limits
    found: Simulated
    speedup: float
    held_by: str
    gain: float


def scale(
    graph: TaskGraph,
    machine: MachineModel,
    cores: Sequence[int],
    clients: int = 1,
    memory_bytes_per_ns: float | None = None,
) -> list[Scaled]:
    """Returns what runs of `graph` take at each number of cores.

    Args:
        graph: The tasks, with their times on one worker.
        machine: The figures of the machine on which they were measured.
        cores: The numbers.
        clients: How many callers run the model at once.
        memory_bytes_per_ns: As `Costs.of` takes it.
    """
    alone = simulate(graph, Limits(1, 1), Costs.of(machine, 1, memory_bytes_per_ns), clients)
    return [_scaled(graph, Costs.of(machine, count, memory_bytes_per_ns), count, clients, alone) for count in cores]


def last_gain(scaled: Sequence[Scaled]) -> int:
    """Returns the number of cores beyond which the next larger number of `scaled` gains less than WORTH."""
    for one, more in pairwise(scaled):
        if more.speedup < WORTH * one.speedup:
            return one.cores
    return scaled[-1].cores


def _scaled(graph: TaskGraph, costs: Costs, cores: int, clients: int, alone: Simulated) -> Scaled:
    tried = {limits: simulate(graph, limits, costs, clients) for limits in _limits(cores)}
    limits = max(tried, key=lambda each: tried[each].runs_per_second)
    found = tried[limits]
    speedup = found.runs_per_second / alone.runs_per_second
    if speedup > cores / _NOTICEABLE:
        return Scaled(cores, limits, found, speedup, "nothing", 1.0)
    gains = {
        name: simulate(without, limits, less, clients).runs_per_second / found.runs_per_second
        for name, without, less in _without(graph, costs, cores)
    }
    most = max(gains, key=gains.__getitem__)
    held_by, gain = (most, gains[most]) if gains[most] >= _NOTICEABLE else ("span", 1.0)
    return Scaled(cores, limits, found, speedup, held_by, gain)


def _limits(cores: int) -> list[Limits]:
    """Returns the limits that are tried: automatic ones first, which are taken where others are no better."""
    return list(dict.fromkeys((Limits(cores, cores), Limits(cores, 1), Limits(1, cores))))


def _without(graph: TaskGraph, costs: Costs, cores: int) -> Iterator[tuple[str, TaskGraph, Costs]]:
    """Yields each limit that may hold a run back, by its name, with the graph and the costs as they are without it."""
    endless = float("inf")
    yield "memory", graph, replace(costs, far_bytes_per_ns=endless)
    yield "cache", graph, replace(costs, near_bytes_per_ns=endless)
    yield "lock", graph, replace(costs, lock_ns=0.0)
    yield "wake-ups", graph, replace(costs, wake_ns=0.0)
    shared = (
        replace(task, chunks=max(task.chunks, _PLENTY * cores)) if task.chunks > 1 else task for task in graph.tasks
    )
    yield "chunks", replace(graph, tasks=tuple(shared)), replace(costs, chunk_ns=0.0)
