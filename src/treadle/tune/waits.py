"""What the workers of a run waited for, from its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    edges = sorted({edge for event in events for edge in (event.start, event.end)})
    own: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        own[event.worker].append(event)
    rows = [*own.values(), *([] for _ in range(workers - len(own)))]
    for begin, end in pairwise(edges):
        active = [event for event in events if event.start < end and event.end > begin]
        for row in rows:
            if any(event.start < end and event.end > begin for event in row):
                continue
            found[_reason(row, active, begin, chunks)] += end - begin
    return found


def _reason(row: Sequence[Event], active: Sequence[Event], begin: int, chunks: Mapping[str, int]) -> str:
    """Return why the worker with the events `row` waits from `begin` on, while others are in their `active` events."""
    if not active:
        return BETWEEN
    shared = [event.node for event in active if chunks.get(event.node, 1) > 1]
    if not shared:
        return ONE_CHUNK
    before = [event for event in row if event.end <= begin]
    if any(event.node in shared for event in before[-1:]):
        return LAST_CHUNKS
    return TOO_SHORT if before else WAKING
