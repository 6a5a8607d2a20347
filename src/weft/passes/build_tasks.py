"""Calls to tasks: what waits for what, which tiny calls run as one, and what is most urgent."""

from __future__ import annotations

from collections.abc import Sequence

from weft.graph.value import Value
from weft.passes.choose_kernels import Lowered
from weft.plan.call import Call
from weft.plan.plan import Task

TINY_NS = 8_000.0
"""Calls cheaper than this are run together with their only neighbour: handing one to another worker costs as much."""


def dependencies(lowered: Lowered) -> list[set[int]]:
    """For each call the numbers of the calls that write what it reads."""
    writer: dict[Value, list[int]] = {}
    result: list[set[int]] = []
    for number, call in enumerate(lowered.calls):
        before: set[int] = set()
        for value in call.reads:
            before.update(writer.get(lowered.root(value)[0], ()))
        for value in call.writes:
            writer.setdefault(lowered.root(value)[0], []).append(number)
        before.discard(number)
        result.append(before)
    return result


def build_tasks(calls: Sequence[Call], after: Sequence[set[int]]) -> tuple[list[Call], list[Task]]:
    """Group `calls` (in topological order; call i waits for the calls `after[i]`) into tasks.

    A call joins the task of its only predecessor if it is that task's only successor and both are
    tiny: no parallelism is lost. Returns the calls in the order of their tasks, and the tasks.
    """
    successors: list[set[int]] = [set() for _ in calls]
    for number, before in enumerate(after):
        for other in before:
            successors[other].add(number)
    task_of: list[int] = []
    members: list[list[int]] = []
    cost: list[float] = []
    for number, call in enumerate(calls):
        before = after[number]
        joined = None
        if len(before) == 1:
            (previous,) = before
            task = task_of[previous]
            chained = members[task][-1] == previous and len(successors[previous]) == 1
            tiny = call.cost < TINY_NS and cost[task] < TINY_NS
            alike = call.blocking == calls[previous].blocking and call.function is None
            if chained and tiny and alike and calls[previous].function is None:
                joined = task
        if joined is None:
            joined = len(members)
            members.append([])
            cost.append(0.0)
        members[joined].append(number)
        cost[joined] += call.cost
        task_of.append(joined)
    waits = [
        sorted({task_of[other] for number in numbers for other in after[number]} - {task})
        for task, numbers in enumerate(members)
    ]
    priority = list(cost)
    for task in range(len(members) - 1, -1, -1):
        for other in waits[task]:
            priority[other] = max(priority[other], cost[other] + priority[task])
    ordered: list[Call] = []
    tasks: list[Task] = []
    for task, numbers in enumerate(members):
        blocking = calls[numbers[0]].blocking
        tasks.append(Task(len(ordered), len(numbers), tuple(waits[task]), priority[task], blocking))
        ordered.extend(calls[number] for number in numbers)
    return ordered, tasks
