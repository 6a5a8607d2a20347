"""Draws a trace in the terminal: one line per worker, time from left to right."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.cli.output import duration, shorten
from treadle.tracing.record import Event

MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
IDLE = "·"
OTHER = "▒"
LEGEND = 12


def draw(events: Sequence[Event], columns: int) -> str:
    """Draws the workers' time between the first and the last event, with a legend of the longest ops.

    Each column shows the op that filled most of its time on that worker; ops that are not in the legend are
    drawn as ▒, idle time as ·.
    """
    if not events:
        return "  (nothing was recorded)"
    start = min(event.start for event in events)
    end = max(event.end for event in events)
    span = max(1, end - start)
    total: dict[str, int] = {}
    for event in events:
        total[event.node] = total.get(event.node, 0) + event.end - event.start
    longest = sorted(total, key=lambda node: -total[node])[:LEGEND]
    order = sorted(longest, key=lambda node: min(event.start for event in events if event.node == node))
    marks = dict(zip(order, MARKS, strict=False))
    workers = sorted({event.worker for event in events})
    room = max(20, columns - 16)
    lines = []
    for worker in workers:
        own = [event for event in events if event.worker == worker]
        cells = [_cell(own, start + span * i // room, start + span * (i + 1) // room, marks) for i in range(room)]
        busy = sum(event.end - event.start for event in own) / span
        lines.append(f"  worker {worker:<2} {''.join(cells)} {min(busy, 1.0):4.0%}")
    lines.append(f"            0{duration(span).rjust(room - 1)}")
    lines += [f"    {mark}  {shorten(node, columns - 24)}  {duration(total[node])}" for node, mark in marks.items()]
    return "\n".join(lines)


def _cell(events: Sequence[Event], begin: int, end: int, marks: dict[str, str]) -> str:
    """Returns the mark of the op that filled most of the time from `begin` to `end`."""
    filled: dict[str, int] = {}
    for event in events:
        overlap = min(end, event.end) - max(begin, event.start)
        if overlap > 0:
            filled[event.node] = filled.get(event.node, 0) + overlap
    if 2 * sum(filled.values()) < end - begin:
        return IDLE
    return marks.get(max(filled, key=lambda node: filled[node]), OTHER)
