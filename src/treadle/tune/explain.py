"""Why a model takes the time that it takes: what its ops do and reach, and what its workers wait for."""

from __future__ import annotations

import html
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.compile import Session
from treadle.plan.call import Call
from treadle.plan.plan import Plan
from treadle.tracing.record import Event
from treadle.tracing.typical import typical
from treadle.tune.advice import Lost, Slowest, advise
from treadle.tune.peaks import Peaks, measure_peaks
from treadle.tune.task_graph import longest_path, times_of_calls
from treadle.tune.waits import waits

RUNS = 15
"""Runs of each kind: the latency is their median, events are those of the run of median duration."""


@dataclass(frozen=True, slots=True)
class OpReport:
    """What one node of the plan does in a run.

    Attributes:
        node: Its name.
        op: Its op.
        kernel: The families of its kernels; `reference` for Python.
        chunks: The most chunks of its steps: as many workers may share it.
        workers: How many shared it.
        flops: The floating-point operations; None inside bodies of branches and loops.
        traffic: The bytes of its operands and results; None likewise.
        alone_ns: Its time on one thread.
        shared_ns: The time of all workers together with the run's threads.
        span_ns: From its beginning to its end with these.
    """

    node: str
    op: str
    kernel: str
    chunks: int
    workers: int
    flops: float | None
    traffic: float | None
    alone_ns: int
    shared_ns: int
    span_ns: int

    @property
    def intensity(self) -> float | None:
        """Floating-point operations for each byte."""
        return self.flops / self.traffic if self.flops and self.traffic else None

    def arithmetic_share(self, peaks: Peaks) -> float | None:
        """Return the part of one core's multiply-add limit that it reaches on one thread.

        It may be above 1: Winograd's and Strassen's algorithms take fewer operations than `flops` counts.
        """
        return None if not self.flops or not self.alone_ns else self.flops / self.alone_ns / peaks.flops_per_ns

    def memory_share(self, peaks: Peaks) -> float | None:
        """Return its bytes a ns on one thread over what memory gives one core; above 1 if caches hold them."""
        return None if not self.traffic or not self.alone_ns else self.traffic / self.alone_ns / peaks.core_bytes_per_ns


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the time of a model's runs goes on this machine. Times are in ns.

    Attributes:
        threads: The limits of the runs with several threads, `(intra_op, inter_op)`.
        alone_ns: The latency of a run on one thread, the median of `RUNS`.
        latency_ns: The same with `threads`.
        work_ns: The time of all ops on one thread.
        path_ns: The time of the longest path of ops that wait for each other: no number of ops at once is faster.
        ops: Its nodes, in the order of their first steps.
        waits: What the workers of a run with `threads` waited for, and how long together.
        peaks: What this machine gives at most.
        disturbed: The part of the time of the runs on one thread in which their thread had no CPU.
    """

    threads: tuple[int, int]
    alone_ns: float
    latency_ns: float
    work_ns: int
    path_ns: float
    ops: list[OpReport]
    waits: dict[str, int]
    peaks: Peaks
    disturbed: float

    @property
    def speedup(self) -> float:
        """How many times as fast as on one thread it is with `threads`."""
        return self.alone_ns / self.latency_ns

    @property
    def most_from_inter_op(self) -> float:
        """The most that executing independent ops at once could gain, on any number of CPUs: work over longest path."""
        return self.work_ns / self.path_ns if self.path_ns else 1.0

    @property
    def slowed_ns(self) -> int:
        """How much longer all ops together take with several threads: they share memory, caches and the CPUs."""
        return max(0, sum(op.shared_ns - op.alone_ns for op in self.ops))

    @property
    def workers_ns(self) -> int:
        """The time of all workers of a run with `threads`, at least 1."""
        return self.work_ns + self.slowed_ns + sum(self.waits.values()) or 1

    @property
    def advice(self) -> str:
        """One sentence for those who want the model to be faster."""
        lost = Lost(
            {reason: ns / self.workers_ns for reason, ns in self.waits.items()}, self.slowed_ns / self.workers_ns
        )
        return advise(max(self.threads), self.speedup, lost, _slowest(self.ops, self.peaks))

    def _repr_html_(self) -> str:
        """A table of the ops that take longest, for notebooks."""
        names = "node", "op", "kernel", "chunks", "workers", "ms on one thread", "FLOPs", "bytes", "of limit"
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(op, self.peaks)) + "</tr>"
            for op in sorted(self.ops, key=lambda op: -op.alone_ns)[:20]
        )
        return (
            f"<p>{html.escape(self.advice)}</p><p>{self.latency_ns / 1e6:.3g} ms with (intra_op, inter_op) = "
            f"{self.threads}, {self.alone_ns / 1e6:.3g} ms on one thread.</p><table><tr>{head}</tr>{rows}</table>"
        )


def explain(session: Session, inputs: Mapping[str, Any]) -> Explanation:
    """Run `session` on one thread and with its own limits, and say where the time goes.

    Args:
        session: A session of the model.
        inputs: As `Session.run` takes them.

    Returns:
        What was found. It takes about thirty runs, and a quarter of a second to measure what the machine gives.

    Raises:
        TreadleError: As `Session.run` does.

    Example:
        >>> print(treadle.explain(session, {"x": x}).advice)
    """
    plans = session.plans_for(inputs)
    limits = session.get()
    threads = limits.intra_op, limits.inter_op
    alone = typical(lambda: session.run(inputs, intra_op=1, inter_op=1), RUNS)
    shared = typical(lambda: session.run(inputs), RUNS)
    latencies, disturbed = _latencies(session, inputs)
    ops = _ops([call for plan in plans for call in plan.calls], alone, shared)
    return Explanation(
        threads=threads,
        alone_ns=latencies[0],
        latency_ns=latencies[1],
        work_ns=sum(op.alone_ns for op in ops),
        path_ns=sum(_path(plan, alone) for plan in plans),
        ops=ops,
        waits=waits(shared, max(threads), {op.node: op.chunks for op in ops}),
        peaks=measure_peaks(max(threads)),
        disturbed=disturbed,
    )


def _path(plan: Plan, events: Sequence[Event]) -> float:
    """Return the time of the longest path of tasks of `plan` that wait for each other."""
    times = [ns or 0.0 for ns in times_of_calls(plan, [events])]
    return longest_path((task.after, sum(times[task.first : task.first + task.count])) for task in plan.tasks)


def _slowest(ops: Sequence[OpReport], peaks: Peaks) -> Slowest:
    op = max(ops, key=lambda op: op.alone_ns)
    shares = {"arithmetic": op.arithmetic_share(peaks) or 0.0, "memory": op.memory_share(peaks) or 0.0}
    limit = max(shares, key=shares.__getitem__)
    whole = sum(each.alone_ns for each in ops) or 1
    known = shares[limit] > 0
    return Slowest(op.node, op.alone_ns / whole, shares[limit] if known else None, limit if known else None, op.kernel)


def _latencies(session: Session, inputs: Mapping[str, Any]) -> tuple[tuple[float, float], float]:
    """Return the median latency on one thread and with the session's limits, measured by turns.

    Then the part of the time on one thread in which this thread, which executes the run, had no CPU.
    """
    found: tuple[list[int], list[int]] = [], []
    used = 0
    for _ in range(RUNS):
        for limit, own in zip((1, None), found, strict=True):
            cpu, before = time.thread_time_ns(), time.perf_counter_ns()
            session.run(inputs, intra_op=limit, inter_op=limit)
            own.append(time.perf_counter_ns() - before)
            used += time.thread_time_ns() - cpu if limit == 1 else 0
    return (statistics.median(found[0]), statistics.median(found[1])), max(0.0, 1 - used / sum(found[0]))


def _ops(calls: Sequence[Call], alone: Sequence[Event], shared: Sequence[Event]) -> list[OpReport]:
    """Return what is known of each node that has events; `calls` are those of all plans, also of variants not taken."""
    steps: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.chunks > 0:
            steps[call.node].append(call)
    times = [_by_node(events) for events in (alone, shared)]
    ops = []
    for node, events in times[0].items():
        own, others = steps.get(node, []), times[1].get(node, [])
        ops.append(
            OpReport(
                node=node,
                op=events[0].op,
                kernel=" ".join(dict.fromkeys(call.runs_as for call in own)) or "in a body",
                chunks=max([call.chunks for call in own], default=max(event.chunks for event in events)),
                workers=len({event.worker for event in others}),
                flops=sum(call.flops for call in own) if own else None,
                traffic=sum(call.traffic for call in own) if own else None,
                alone_ns=sum(event.end - event.start for event in events),
                shared_ns=sum(event.end - event.start for event in others),
                span_ns=max((e.end for e in others), default=0) - min((e.start for e in others), default=0),
            )
        )
    return ops


def _by_node(events: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event.node].append(event)
    return found


def _cells(op: OpReport, peaks: Peaks) -> list[str]:
    share = op.arithmetic_share(peaks)
    return [
        op.node,
        op.op,
        op.kernel,
        str(op.chunks),
        str(op.workers),
        f"{op.alone_ns / 1e6:.3g}",
        "" if op.flops is None else f"{op.flops:.3g}",
        "" if op.traffic is None else f"{op.traffic:.3g}",
        "" if share is None else f"{share:.0%}",
    ]
