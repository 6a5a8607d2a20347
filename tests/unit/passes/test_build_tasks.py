"""How calls become tasks."""

from __future__ import annotations

from weft.dtypes import f32
from weft.graph.graph import Graph
from weft.passes.build_tasks import build_tasks
from weft.plan.call import Call
from weft.plan.kernel_spec import KernelSpec

SPEC = KernelSpec.of("copy_bytes")


def calls(costs: list[float]) -> list[Call]:
    graph = Graph()
    return [
        Call(f"n{i}", "op", (graph.value(f"v{i}", f32, (1,)),), (), spec=SPEC, cost=cost)
        for i, cost in enumerate(costs)
    ]


def test_a_chain_of_tiny_calls_is_one_task() -> None:
    """
    Scheduling a chain that nothing can run beside would cost and gain nothing.
    """
    _, tasks = build_tasks(calls([100.0] * 5), [set(), {0}, {1}, {2}, {3}])

    assert [(task.first, task.count) for task in tasks] == [(0, 5)]


def test_costly_calls_stay_tasks_of_their_own() -> None:
    """
    A call that several workers may share is not buried in a task that one worker runs alone.
    """
    _, tasks = build_tasks(calls([1e6, 1e6, 100.0]), [set(), {0}, {1}])

    assert [task.count for task in tasks] == [1, 1, 1]


def test_branches_stay_separate_tasks() -> None:
    """
    Two calls that do not depend on each other are never put into one task.
    """
    ordered, tasks = build_tasks(calls([100.0] * 4), [set(), {0}, {0}, {1, 2}])

    assert len(tasks) == 4
    assert tasks[3].after == (1, 2)
    assert len(ordered) == 4


def test_calls_stand_in_the_order_of_their_tasks() -> None:
    """
    The calls of a task are consecutive, also where other calls stood between them.
    """
    given = calls([100.0] * 4)

    ordered, tasks = build_tasks(given, [set(), set(), {0}, {1}])

    assert [(task.first, task.count) for task in tasks] == [(0, 2), (2, 2)]
    assert ordered == [given[0], given[2], given[1], given[3]]


def test_priority_is_the_longest_path_to_the_end() -> None:
    """
    What the whole graph waits for comes first.
    """
    _, tasks = build_tasks(calls([10e3, 20e3, 70e3, 5e3]), [set(), {0}, {0}, {1, 2}])

    assert [task.priority for task in tasks] == [85e3, 25e3, 75e3, 5e3]


def test_a_python_call_is_a_task_of_its_own() -> None:
    """
    Python functions are not chained to kernels: they need the GIL.
    """
    given = calls([100.0] * 3)
    given[1].spec, given[1].function = None, lambda arrays: arrays

    _, tasks = build_tasks(given, [set(), {0}, {1}])

    assert [task.count for task in tasks] == [1, 1, 1]
