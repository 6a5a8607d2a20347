"""What workers waited for, from made-up events."""

from __future__ import annotations

from treadle.tracing.record import Event
from treadle.tune import waits as reasons
from treadle.tune.waits import waits


def event(node: str, worker: int, start: int, end: int) -> Event:
    return Event(node, "conv", 1, worker, 10 + worker, start, end, 1, 1)


def test_each_wait_has_a_reason_and_all_time_is_counted() -> None:
    """Worker 1 wakes during a, ends before b does, and cannot help c; then both are between ops."""
    events = [
        event("a", 0, 0, 10),
        event("b", 0, 10, 30),
        event("b", 1, 12, 25),
        event("c", 0, 30, 45),
        event("d", 0, 50, 60),
        event("d", 1, 50, 60),
    ]
    found = waits(events, 2, {"a": 8, "b": 8, "c": 1, "d": 2})
    assert found == {
        reasons.WAKING: 12,
        reasons.ONE_CHUNK: 15,
        reasons.TOO_SHORT: 0,
        reasons.LAST_CHUNKS: 5,
        reasons.BETWEEN: 10,
    }
    assert sum(found.values()) + sum(each.end - each.start for each in events) == 2 * 60


def test_an_op_that_a_worker_leaves_to_others_was_too_short() -> None:
    events = [event("a", 0, 0, 10), event("a", 1, 0, 10), event("b", 0, 10, 14)]
    assert waits(events, 2, {"a": 2, "b": 4})[reasons.TOO_SHORT] == 4


def test_a_worker_without_events_waits_all_the_time() -> None:
    found = waits([event("a", 0, 5, 25)], 3, {"a": 1})
    assert found[reasons.ONE_CHUNK] == 40


def test_no_events() -> None:
    assert set(waits([], 2, {}).values()) == {0}
