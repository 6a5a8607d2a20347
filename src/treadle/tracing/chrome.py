"""Timelines in the Chrome trace-event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from treadle.tracing.record import Event


def write(events: Sequence[Event], file: TextIO) -> None:
    """Write `events` as complete ("X") slices: one track per worker, times in microseconds from the first event."""
    origin = min((event.start for event in events), default=0)
    tracks = {track: number + 1 for number, track in enumerate(sorted({(e.team, e.worker) for e in events}))}
    teams = len({event.team for event in events})
    records: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "treadle"}},
    ]
    for (team, worker), tid in tracks.items():
        name = {"name": f"team {team} worker {worker}" if teams > 1 else f"worker {worker}"}
        records.append({"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": name})
        records.append({"ph": "M", "pid": 1, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}})
    records.extend(
        {
            "ph": "X",
            "pid": 1,
            "tid": tracks[event.team, event.worker],
            "name": event.node,
            "cat": event.op,
            "ts": (event.start - origin) / 1000,
            "dur": (event.end - event.start) / 1000,
            "args": {"op": event.op, "chunks": event.chunks, "run": event.run, "thread": event.thread}
            | ({} if event.iteration is None else {"iteration": event.iteration}),
        }
        for event in events
    )
    json.dump({"traceEvents": records, "displayTimeUnit": "ns"}, file)
