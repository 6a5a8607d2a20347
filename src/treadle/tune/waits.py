"""What the workers of a run waited for, from its events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from treadle.tracing.record import Event

WAKING = "waking up"
ONE_CHUNK = "ops that cannot be shared, and no other was ready"
TOO_SHORT = "ops too short to share"
LAST_CHUNKS = "the last chunks of shared ops"
BETWEEN = "starting the next op"

REASONS = (WAKING, ONE_CHUNK, TOO_SHORT, LAST_CHUNKS, BETWEEN)
"""The reasons why a worker of a run waits, as explanations name them."""


def waits(events: Sequence[Event], workers: int, chunks: Mapping[str, int]) -> dict[str, int]:
    """Return for each of `REASONS` how many ns workers waited, from the first event to the end of the last one.

    Args:
        events: Those of one run, in order of their start.
        workers: How many workers the run may have: one without an event waits all the time.
        chunks: The most chunks of a step of each node.
    """
    found = dict.fromkeys(REASONS, 0)
    if not events:
        return found
    by_end = sorted(range(len(events)), key=lambda number: events[number].end)
    edges = sorted({edge for event in events for edge in (event.start, event.end)})
    seen = {event.worker for event in events}
    silent = max(0, workers - len(seen))
    active: dict[int, Event] = {}
    left: dict[int, int] = {}  # of each worker, the event that began last of those that have ended
    begun = ended = 0
    for begin, end in pairwise(edges):
        while begun < len(events) and events[begun].start <= begin:
            active[begun] = events[begun]
            begun += 1
        while ended < len(events) and events[by_end[ended]].end <= begin:
            event = active.pop(by_end[ended])
            left[event.worker] = max(left.get(event.worker, -1), by_end[ended])
            ended += 1
        shared = {event.node for event in active.values() if chunks.get(event.node, 1) > 1}
        for worker in seen - {event.worker for event in active.values()}:
            last = events[left[worker]].node if worker in left else None
            found[_reason(last, shared, is_busy=bool(active))] += end - begin
        found[_reason(None, shared, is_busy=bool(active))] += silent * (end - begin)
    return found


def _reason(last: str | None, shared: Collection[str], *, is_busy: bool) -> str:
    """Return why a worker waits.

    Args:
        last: The node that it executed last; None if it has executed nothing yet.
        shared: The nodes in progress that workers can share.
        is_busy: Whether any node is in progress.
    """
    if not is_busy:
        return BETWEEN
    if not shared:
        return ONE_CHUNK
    if last in shared:
        return LAST_CHUNKS
    return WAKING if last is None else TOO_SHORT
