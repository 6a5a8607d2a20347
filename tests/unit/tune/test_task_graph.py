"""Tasks of real models are recorded with their times, chunks and traffic."""

from __future__ import annotations

import pytest
from tests.models import small

import treadle
from treadle.errors import InputError
from treadle.plan.plan import Plan
from treadle.tune.task_graph import TaskGraph, record_tasks, timed_tasks


@pytest.fixture(scope="module")
def recorded() -> tuple[Plan, TaskGraph]:
    model = small.convolutional()
    session, feed = treadle.Session(model), small.inputs_for(model)
    (plan,) = session.plans_for(feed)
    return plan, record_tasks(lambda: session.run(feed, intra_op=1, inter_op=1), plan, 3)


def test_every_task_has_a_time_and_the_chunks_of_its_call(recorded: tuple[Plan, TaskGraph]) -> None:
    """
    A task of several calls is not shared.
    """
    plan, graph = recorded

    assert len(graph.tasks) == len(plan.tasks)
    for task, planned in zip(graph.tasks, plan.tasks, strict=True):
        calls = plan.calls[planned.first : planned.first + planned.count]
        assert task.ns > 0
        assert task.after == planned.after
        assert task.chunks == (calls[0].chunks if len(calls) == 1 else 1)
        assert task.near_bytes + task.far_bytes <= sum(call.traffic for call in calls)


def test_the_span_is_a_part_of_the_work(recorded: tuple[Plan, TaskGraph]) -> None:
    """
    The rest of a run is outside of its tasks.
    """
    _, graph = recorded

    assert 0 < graph.span_ns <= graph.work_ns
    assert graph.outside_ns > 0


def test_weights_that_no_cache_holds_come_from_memory(recorded: tuple[Plan, TaskGraph]) -> None:
    """
    Those of a small model stay in a cache.
    """
    _, graph = recorded

    assert all(task.far_bytes == 0 for task in graph.tasks)


def test_a_step_without_an_event_is_an_error(recorded: tuple[Plan, TaskGraph]) -> None:
    """
    Its time is unknown.
    """
    plan, _ = recorded

    with pytest.raises(InputError, match="steps left no event"):
        timed_tasks(plan, [[]], 0.0)
