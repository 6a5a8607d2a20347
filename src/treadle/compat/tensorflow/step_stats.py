"""RunMetadata.step_stats, from treadle's trace events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.compat.tensorflow.config import DeviceStepStats, NodeExecStats, RunMetadata
from treadle.compat.tensorflow.placement import cpu_name
from treadle.tracing.record import Event, record


@contextmanager
def record_step_stats(metadata: RunMetadata) -> Iterator[None]:
    """Record the block into `metadata`. There can be one recording at a time in a process."""
    with record() as recording:
        yield
    epoch = time.time_ns() - time.monotonic_ns()
    stats = [node_stats(event, epoch) for event in recording.events]
    metadata.step_stats.dev_stats = [DeviceStepStats(cpu_name(0), stats)]


def node_stats(event: Event, epoch: int) -> NodeExecStats:
    """Return the statistics of an event. `epoch` is the wall clock minus the monotonic clock, in ns."""
    length, began = event.end - event.start, event.start + epoch
    elapsed = length // 1000
    return NodeExecStats(
        node_name=event.node,
        timeline_label=f"{event.node} = {event.op}() worker {event.worker} chunks {event.chunks}",
        all_start_micros=began // 1000,
        all_end_rel_micros=elapsed,
        op_start_rel_micros=0,
        op_end_rel_micros=elapsed,
        thread_id=event.thread,
        scheduled_micros=began // 1000,
        all_start_nanos=began,
        op_end_rel_nanos=length,
        all_end_rel_nanos=length,
        scheduled_nanos=began,
    )
