"""Calls to tasks: what waits for what, which tiny calls run as one, and what is most urgent."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.graph.dim import hint_of
from treadle.graph.value import Value
from treadle.passes.choose_kernels import Lowered
from treadle.plan.call import Call
from treadle.plan.plan import Task
from treadle.records import dataclass

_TINY = 8.0
"""Calls that take less than so many wake-ups are run together with their only neighbour."""

_SIBLINGS = 3.0, 16.0
"""Calls between the same neighbours are run together up to the lesser number of wake-ups, and up to the greater, about
a chunk, where _SIBLING_TASKS such tasks are left."""

_SIBLING_TASKS = 16
"""With fewer tasks, workers may be left without one."""


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


@dataclass(slots=True)
class _Group:
    """Calls that one worker runs in turn. `before` and `after` are the groups it waits for and that wait for it, by
    number; `single` ones are never joined."""

    calls: list[int]
    cost: float
    before: set[int]
    after: set[int]
    single: bool


def build_tasks(calls: Sequence[Call], after: Sequence[set[int]], wake_ns: float) -> tuple[list[Call], list[Task]]:
    """Group `calls` (in topological order; call i waits for the calls `after[i]`) into tasks.

    Tiny calls are joined where that costs no parallelism worth having: one with its only neighbour, and some
    that wait for the same and are waited for by the same, by their cost alone. `wake_ns` is the machine's. Returns the
    calls in the order of their tasks, and the tasks.
    """
    groups = [
        _Group([number], hint_of(call.cost), set(after[number]), set(), _is_single(call))
        for number, call in enumerate(calls)
    ]
    for number, before in enumerate(after):
        for other in before:
            groups[other].after.add(number)
    groups = _join_chains(groups, _TINY * wake_ns)
    while len(joined := _join_siblings(groups, wake_ns)) < len(groups):
        groups = _join_chains(joined, _TINY * wake_ns)
    priority = _priorities(groups)
    ordered: list[Call] = []
    tasks: list[Task] = []
    for number, group in enumerate(groups):
        blocking = calls[group.calls[0]].blocking
        tasks.append(Task(len(ordered), len(group.calls), tuple(sorted(group.before)), priority[number], blocking))
        ordered.extend(calls[call] for call in group.calls)
    return ordered, tasks


def _is_single(call: Call) -> bool:
    """Whether `call` is a task of its own. A variant is: it may cost much for other sizes than the samples."""
    return call.spec is None or call.variant is not None


def _join_chains(groups: list[_Group], tiny_ns: float) -> list[_Group]:
    """Each tiny group joined to the tiny one that it alone follows."""
    into = list(range(len(groups)))
    cost = [group.cost for group in groups]
    for number, group in enumerate(groups):
        if group.single or len(group.before) != 1:
            continue
        (other,) = group.before
        if groups[other].single or len(groups[other].after) > 1:
            continue
        first = into[other]
        if group.cost < tiny_ns and cost[first] < tiny_ns:
            into[number] = first
            cost[first] += group.cost
    return _joined(groups, into)


def _join_siblings(groups: list[_Group], wake_ns: float) -> list[_Group]:
    """Groups between the same neighbours joined, as many as are worth _SIBLINGS wake-ups together."""
    least, greatest = (number * wake_ns for number in _SIBLINGS)
    into = list(range(len(groups)))
    cost = [group.cost for group in groups]
    siblings: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for number, group in enumerate(groups):
        if not group.single and group.cost < greatest / 2:
            siblings.setdefault((frozenset(group.before), frozenset(group.after)), []).append(number)
    for numbers in siblings.values():
        most = min(max(sum(cost[number] for number in numbers) / _SIBLING_TASKS, least), greatest)
        first = numbers[0]
        for number in numbers[1:]:
            if cost[first] + cost[number] <= most:
                into[number] = first
                cost[first] += cost[number]
            else:
                first = number
    return _joined(groups, into)


def _joined(groups: list[_Group], into: list[int]) -> list[_Group]:
    """The groups with each appended to the one that `into` names: itself, or an earlier one that is not joined."""
    place = {first: new for new, first in enumerate(sorted(set(into)))}
    result = [_Group([], 0.0, set(), set(), groups[first].single) for first in place]
    for number, group in enumerate(groups):
        new = place[into[number]]
        target = result[new]
        target.calls += group.calls
        target.cost += group.cost
        target.before |= {place[into[other]] for other in group.before} - {new}
        target.after |= {place[into[other]] for other in group.after} - {new}
    return result


def _priorities(groups: list[_Group]) -> list[float]:
    """The length in ns of the longest path from each group to the end."""
    priority = [group.cost for group in groups]
    for number in range(len(groups) - 1, -1, -1):
        for other in groups[number].before:
            priority[other] = max(priority[other], groups[other].cost + priority[number])
    return priority
