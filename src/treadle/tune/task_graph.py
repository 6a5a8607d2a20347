"""The tasks of a model with what each took on one worker: what a simulation replays."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from treadle.errors import InputError
from treadle.passes.lower.base import stay_in
from treadle.plan.call import Call
from treadle.plan.plan import Home, Plan
from treadle.tracing.record import Event, record


@dataclass(frozen=True, slots=True)
class TimedTask:
    """A task and what it took.

    Attributes:
        name: The name of its first node.
        ns: On one worker, all chunks together.
        chunks: Parts that different workers may execute.
        near_bytes: What it reads and writes of values that caches hold, if it is more than L2 holds.
        far_bytes: What it reads of weights that no cache holds.
        after: The numbers of the tasks that it waits for.
        priority: The time from its start to the end of the graph along the longest path, by estimate.
        most_workers: The cap on the workers that share it; 0: none.
    """

    name: str
    ns: float
    chunks: int
    near_bytes: float
    far_bytes: float
    after: tuple[int, ...]
    priority: float
    most_workers: int = 0


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """All tasks of a model, in an order in which they can be executed, and a run's time outside of them.

    Attributes:
        tasks: The tasks.
        outside_ns: What a run takes before its first task and after its last one: checking inputs, making outputs.
    """

    tasks: tuple[TimedTask, ...]
    outside_ns: float

    @property
    def work_ns(self) -> float:
        """The time of all tasks on one worker."""
        return sum(task.ns for task in self.tasks)

    @property
    def span_ns(self) -> float:
        """The time of the longest path of tasks that wait for each other, each on one worker."""
        return longest_path((task.after, task.ns) for task in self.tasks)


def longest_path(tasks: Iterable[tuple[Iterable[int], float]]) -> float:
    """Returns the time of the longest path of tasks that wait for each other.

    `tasks` are the numbers of the earlier tasks that each waits for, and its time.
    """
    ends: list[float] = []
    for after, ns in tasks:
        ends.append(max((ends[before] for before in after), default=0.0) + ns)
    return max(ends, default=0.0)


def record_tasks(run: Callable[[], object], plan: Plan, runs: int) -> TaskGraph:
    """Returns the tasks of `plan` with the median of their times in several runs.

    Args:
        run: Runs the model once, on one worker.
        plan: The plan that `run` executes, with numbers for all sizes.
        runs: How many runs are traced, at least 1.

    Raises:
        InputError: Some steps of the plan left no event, so there is nothing to replay.
    """
    outside, traced = [0.0], []
    run()
    for _ in range(runs):
        with record() as recording:
            before = time.perf_counter_ns()
            run()
            took = time.perf_counter_ns() - before
        if recording.events:
            ends = [event.end for event in recording.events]
            outside.append(took - (max(ends) - recording.events[0].start))
        traced.append(recording.events)
    return timed_tasks(plan, traced, statistics.median_high(outside))


def timed_tasks(plan: Plan, runs: Sequence[Sequence[Event]], outside_ns: float) -> TaskGraph:
    """Returns the tasks of `plan` with the median of their times in `runs`, each of which took `outside_ns` more.

    Raises InputError if a step of the plan has no event.
    """
    times = times_of_calls(plan, runs)
    missing = [call.node for call, ns in zip(plan.calls, times, strict=True) if ns is None]
    if missing:
        raise InputError(
            f"{missing[0]!r} and {len(missing) - 1} more of {len(plan.calls)} steps left no event in a traced run: "
            "a simulation needs the time of every step"
        )
    bytes_of_constants = (lambda _: 0.0) if _stay_near(plan) else _constant_bytes(plan)
    tasks = []
    for task in plan.tasks:
        calls = plan.calls[task.first : task.first + task.count]
        far = sum(min(call.traffic, bytes_of_constants(call)) for call in calls)
        near = sum(call.traffic for call in calls) - far
        is_shared = len(calls) == 1 and not task.blocking
        tasks.append(
            TimedTask(
                name=calls[0].node,
                ns=sum(ns or 0.0 for ns in times[task.first : task.first + task.count]),
                chunks=max(1, calls[0].chunks) if is_shared else 1,
                near_bytes=near if near > plan.target.l2 else 0.0,
                far_bytes=far,
                after=task.after,
                priority=task.priority,
                most_workers=calls[0].max_workers if is_shared else 1,
            )
        )
    return TaskGraph(tuple(tasks), outside_ns)


def times_of_calls(plan: Plan, runs: Sequence[Sequence[Event]]) -> list[float | None]:
    """Returns the median time of each call of `plan` in `runs`; None for those that have no event.

    Calls without chunks, such as those of variants that are not taken, take no time and leave no event.
    """
    times = _times_of_steps(runs)
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)

    def time_of(call: Call) -> float | None:
        if call.chunks == 0:
            return 0.0
        key = call.node, call.op
        counts[key] += 1
        return times.get((*key, counts[key] - 1))

    return [time_of(call) for call in plan.calls]


def _times_of_steps(runs: Sequence[Sequence[Event]]) -> Mapping[tuple[str, str, int], float]:
    """Returns the median time of each step, by node, op and how many steps of that node and op came before it."""
    found: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for events in runs:
        seen: defaultdict[tuple[str, str], int] = defaultdict(int)
        for event in events:
            key = event.node, event.op
            found[*key, seen[key]].append(event.end - event.start)
            seen[key] += 1
    return {key: statistics.median(times) for key, times in found.items()}


def _stay_near(plan: Plan) -> bool:
    """Returns whether the last cache holds the constants from one run to the next."""
    constants = sum(buffer.size for buffer in plan.buffers if buffer.home is Home.CONSTANT)
    return stay_in(plan.target.last_cache, constants)


def _constant_bytes(plan: Plan) -> Callable[[Call], float]:
    """Returns a function that returns the bytes of the constants that a call reads."""

    def bytes_of(call: Call) -> float:
        buffers = {plan.places[value].buffer for value in call.reads if value in plan.places}
        return sum(plan.buffers[buffer].size for buffer in buffers if plan.buffers[buffer].home is Home.CONSTANT)

    return bytes_of
