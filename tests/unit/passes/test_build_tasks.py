"""How calls become tasks."""

from __future__ import annotations

from random import Random

from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.passes import build_tasks as joining
from treadle.plan.call import Call
from treadle.plan.kernels.copy_bytes import CopyBytesSpec
from treadle.plan.plan import Task

SPEC = CopyBytesSpec()
WAKE_NS = 1000.0


def build_tasks(given: list[Call], after: list[set[int]]) -> tuple[list[Call], list[Task]]:
    return joining.build_tasks(given, after, WAKE_NS)


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
    Two calls that do not depend on each other stay apart where running them at once is worth its price.
    """
    ordered, tasks = build_tasks(calls([100.0, 2e3, 2e3, 100.0]), [set(), {0}, {0}, {1, 2}])

    assert len(tasks) == 4
    assert tasks[3].after == (1, 2)
    assert len(ordered) == 4


def test_tiny_calls_between_the_same_neighbours_share_tasks() -> None:
    """
    A thousand tiny calls that are ready together are handed out in batches, of which there are still enough for
    many workers.
    """
    count = 1000
    given = [*calls([100.0] * count), *calls([1e6])]

    ordered, tasks = build_tasks(given, [*(set() for _ in range(count)), set(range(count))])

    assert {task.count for task in tasks[:-2]} == {62}
    assert len(tasks) == 18
    assert tasks[-1].after == tuple(range(17))
    assert sorted(map(id, ordered)) == sorted(map(id, given))


def test_many_calls_between_the_same_neighbours_share_tasks_worth_a_chunk() -> None:
    """
    Hundreds of calls of a few microseconds are handed out some at a time, a dozen one by one.
    """
    _, many = build_tasks(calls([5e3] * 256), [set() for _ in range(256)])
    _, few = build_tasks(calls([5e3] * 12), [set() for _ in range(12)])

    assert {task.count for task in many[:-1]} == {3}
    assert {task.count for task in few} == {1}


def test_a_diamond_of_tiny_calls_is_one_task() -> None:
    """
    Branches that are not worth a second worker do not keep the chain around them from being one task.
    """
    _, tasks = build_tasks(calls([100.0] * 7), [set(), {0}, {0}, {1, 2}, {3}, {3}, {4, 5}])

    assert [(task.first, task.count, task.after) for task in tasks] == [(0, 7, ())]


def test_each_call_comes_after_those_it_waits_for() -> None:
    """
    However calls are grouped, tasks and the calls inside them stand in an order that respects every dependency.
    """
    for seed in range(200):
        random = Random(seed)
        count = random.randint(1, 60)
        given = calls([random.choice([50.0, 400.0, 2e3, 9e3]) for _ in range(count)])
        after = [set(random.sample(range(i), min(i, random.randint(0, 3)))) for i in range(count)]

        ordered, tasks = build_tasks(given, after)

        task_of = {
            id(ordered[i]): n for n, task in enumerate(tasks) for i in range(task.first, task.first + task.count)
        }
        place = {id(call): i for i, call in enumerate(ordered)}
        assert len(place) == count
        assert sum(task.count for task in tasks) == count
        reached: list[set[int]] = []
        for task in tasks:
            reached.append(set(task.after).union(*(reached[other] for other in task.after)))
        for call, before in zip(given, after, strict=True):
            for other in before:
                earlier, later = task_of[id(given[other])], task_of[id(call)]
                assert place[id(given[other])] < place[id(call)]
                assert earlier == later or earlier in reached[later]


def test_calls_stand_in_the_order_of_their_tasks() -> None:
    """
    The calls of a task are consecutive, also where other calls stood between them.
    """
    given = calls([1000.0] * 4)

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


def test_calls_are_joined_where_a_wake_up_costs_much() -> None:
    """
    What is tiny depends on the machine.
    """
    chain = [set(), {0}, {1}]

    assert len(joining.build_tasks(calls([5e3] * 3), chain, 500.0)[1]) == 3
    assert len(joining.build_tasks(calls([5e3] * 3), chain, 1000.0)[1]) < 3
