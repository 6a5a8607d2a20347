"""Simulated runs follow what the tasks, the cores and the costs allow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.machines import MACHINES

from treadle.plan.call import Call
from treadle.plan.machine import machine_model
from treadle.plan.plan import Plan
from treadle.tracing.record import Event
from treadle.tune.scaling import last_gain, scale
from treadle.tune.simulate import Costs, simulate
from treadle.tune.space import Limits
from treadle.tune.task_graph import TaskGraph, TimedTask, times_of_calls

FREE = Costs(0.0, 0.0, 0.0, float("inf"), float("inf"))
MACHINE = machine_model("generic-avx512")


def task(ns: float, chunks: int = 1, after: tuple[int, ...] = (), **others: float) -> TimedTask:
    moved = {"near_bytes": 0.0, "far_bytes": 0.0, "priority": ns, **others}
    return TimedTask("node", ns, chunks, after=after, **moved)  # type: ignore[arg-type]


def chain(length: int, ns: float, chunks: int = 1) -> TaskGraph:
    tasks = (task(ns, chunks, (number - 1,) if number else (), priority=-number) for number in range(length))
    return TaskGraph(tuple(tasks), 0.0)


def latency(graph: TaskGraph, intra: int, inter: int, costs: Costs = FREE) -> float:
    return simulate(graph, Limits(intra, inter), costs).latency_ns


def test_one_worker_takes_the_time_of_all_tasks_and_what_is_outside() -> None:
    """
    Nothing is shared, so nothing costs more.
    """
    graph = TaskGraph((task(1000.0), task(500.0, 4)), 70.0)

    assert latency(graph, 1, 1) == pytest.approx(1570.0)


def test_chunks_divide_an_op_up_to_their_number_and_its_cap() -> None:
    """
    Three workers take three of four chunks at once, and then one takes the last.
    """
    graph = TaskGraph((task(4000.0, 4),), 0.0)

    assert [latency(graph, workers, 1) for workers in (1, 2, 3, 4, 8)] == [4000.0, 2000.0, 2000.0, 1000.0, 1000.0]
    capped = replace(graph, tasks=(replace(graph.tasks[0], most_workers=2),))
    assert latency(capped, 8, 1) == 2000.0


def test_independent_tasks_run_at_once_up_to_inter_op() -> None:
    """
    Dependent ones do not.
    """
    wide = TaskGraph(tuple(task(1000.0) for _ in range(6)), 0.0)

    assert [latency(wide, 1, inter) for inter in (1, 2, 3, 6)] == [6000.0, 3000.0, 2000.0, 1000.0]
    assert latency(chain(6, 1000.0), 4, 4) == 6000.0


def test_the_most_urgent_task_runs_first() -> None:
    """
    The long path begins at once; the short task fills the other worker.
    """
    urgent, after, short = task(1000.0, priority=3000.0), task(2000.0, after=(0,)), task(1000.0, priority=1000.0)

    assert latency(TaskGraph((urgent, after, short), 0.0), 1, 2) == 3000.0


def test_help_that_costs_more_than_it_saves_is_not_called() -> None:
    """
    Ten chunks of 100 ns do not pay for a worker that begins after 600 ns.
    """
    graph = chain(5, 1000.0, 10)

    assert latency(graph, 2, 1, replace(FREE, wake_ns=600.0)) == pytest.approx(latency(graph, 1, 1), rel=0.13)
    assert latency(graph, 2, 1, replace(FREE, wake_ns=10.0)) < 3000.0


def test_the_lock_bounds_how_many_ops_can_follow_each_other() -> None:
    """
    Each op of 64 clients takes it, on as many cores as there are.
    """
    graph, held = chain(20, 1000.0), replace(FREE, lock_ns=100.0)
    found = simulate(graph, Limits(64, 64), held, clients=64)

    assert 20 * found.runs_per_second <= 1.01e9 / 100
    assert simulate(graph, Limits(64, 64), FREE, clients=64).runs_per_second > 5 * found.runs_per_second


def test_memory_bounds_how_many_cores_read_weights() -> None:
    """
    Each core asks for 10 bytes a ns, all together get 20.
    """
    graph = TaskGraph((task(64_000.0, 64, far_bytes=640_000.0),), 0.0)
    costs = replace(FREE, far_bytes_per_ns=20.0)

    assert latency(graph, 2, 1, costs) == 32_000.0
    assert latency(graph, 8, 1, costs) == pytest.approx(32_000.0, rel=0.15)


def test_clients_share_the_cores() -> None:
    """
    A run that cannot be shared takes one core, and each client has one.
    """
    graph = chain(10, 1000.0)
    one, four, eight = (simulate(graph, Limits(4, 4), FREE, clients) for clients in (1, 4, 8))

    assert four.runs_per_second == pytest.approx(4 * one.runs_per_second)
    assert eight.runs_per_second == pytest.approx(four.runs_per_second, rel=0.1)
    assert eight.latency_ns > 1.8 * four.latency_ns


def test_a_model_without_tasks_takes_what_is_outside() -> None:
    """
    All of its outputs are constants or inputs.
    """
    assert latency(TaskGraph((), 70.0), 2, 2) == 70.0


@pytest.mark.parametrize(
    ("graph", "held_by"),
    [
        (chain(20, 100_000.0), "span"),
        (chain(20, 100_000.0, 3), "chunks"),
        (TaskGraph((task(1e6, 256, far_bytes=3e7),), 0.0), "memory"),
        (TaskGraph((task(1e6, 256, near_bytes=3e7),), 0.0), "cache"),
        (TaskGraph(tuple(task(1200.0) for _ in range(2000)), 0.0), "lock"),
        (chain(1, 1e8, 4096), "nothing"),
    ],
)
def test_what_holds_a_model_is_named(graph: TaskGraph, held_by: str) -> None:
    """
    What is named is what runs would gain most without.
    """
    (found,) = scale(graph, MACHINE, [16])

    assert found.held_by == held_by
    assert (found.gain > 1.0) == (held_by not in ("span", "nothing"))


def test_more_cores_gain_until_the_span_is_reached() -> None:
    """
    Eight chunks are worth eight cores.
    """
    found = scale(chain(20, 1e6, 8), MACHINE, [2, 4, 8, 16, 32])

    assert last_gain(found) == 8
    assert found[1].speedup == pytest.approx(4.0, rel=0.05)
    assert found[-1].speedup <= 8.0


def test_steps_of_variants_that_are_not_taken_take_no_time() -> None:
    """They have no chunks and leave no event: the event of the variant that is taken is its own."""
    calls = [Call("node", "conv", (), (), chunks=chunks) for chunks in (0, 4, 0, 2)]
    plan = Plan(MACHINES["generic"].description(), (), (), calls)
    events = [Event("node", "conv", 1, 0, 1, start, end, 1, 1) for start, end in ((10, 30), (30, 35))]

    assert times_of_calls(plan, [events, events]) == [0.0, 20, 0.0, 5]
    assert times_of_calls(plan, [events[:1]]) == [0.0, 20, 0.0, None]
