"""Replays the tasks of a model on a machine of so many cores, to say how long runs take there.

The model of the machine has cores that execute chunks, a memory and a third cache that cores share, a scheduler whose
decisions take place one after the other under a lock, and workers that begin a while after they are called. It follows
native/README.md: a worker that leaves an op takes the most urgent ready task, else it joins the open op where it saves
most; other idle workers are called if that pays.
"""

from __future__ import annotations

import heapq
import statistics
from dataclasses import dataclass, field

from treadle.plan.machine import MachineModel
from treadle.tune.space import Limits
from treadle.tune.task_graph import TaskGraph, TimedTask

LOCK_NS, LOCK_NS_PER_WORKER = 70.0, 0.0
"""How long the scheduler's lock is held when a worker goes from one op to the next, and how much longer for each
worker of the team: `python -m benches.scale.lock` measures both."""

FURTHER_MEMORY_BYTES_PER_NS = 5.0
"""What each core beyond the second adds to the bandwidth of memory, if nothing else is known: servers of 32 to 128
cores have 4 to 6 bytes a ns for each."""

_CLIENT_RUNS = 4
"""Runs of each client that are simulated; the first of each does not count."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a machine takes beside the arithmetic of chunks.

    Attributes:
        wake_ns: From calling a worker that waits without sleeping until it begins.
        lock_ns: How long the scheduler's lock is not free where a worker goes from one op to the next.
        chunk_ns: Drawing a chunk.
        near_bytes_per_ns: What each core can move through the cache that all share, while all do.
        far_bytes_per_ns: What all cores together can move from and to memory.
    """

    wake_ns: float
    lock_ns: float
    chunk_ns: float
    near_bytes_per_ns: float
    far_bytes_per_ns: float

    @classmethod
    def of(cls, machine: MachineModel, cores: int, memory_bytes_per_ns: float | None = None) -> Costs:
        """Returns the costs of a machine of `cores` cores.

        Args:
            machine: The figures of one of its cores, and of two at once.
            cores: How many there are.
            memory_bytes_per_ns: The bandwidth of memory for all cores together, in bytes a ns (GB/s); None: as much as
                two cores have by the machine model, and FURTHER_MEMORY_BYTES_PER_NS for each further one.
        """
        first = machine.memory_bytes_per_ns if cores == 1 else 2 * machine.memory_shared_bytes_per_ns
        further = max(0, cores - 2) * FURTHER_MEMORY_BYTES_PER_NS
        return cls(
            wake_ns=machine.wake_ns,
            lock_ns=LOCK_NS + LOCK_NS_PER_WORKER * cores + machine.line_ns,
            chunk_ns=machine.chunk_ns,
            near_bytes_per_ns=machine.l3_shared_bytes_per_ns,
            far_bytes_per_ns=first + further if memory_bytes_per_ns is None else memory_bytes_per_ns,
        )


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation found.

    Attributes:
        latency_ns: The median time of a run.
        runs_per_second: Of all clients together.
        busy: The part of the cores' time in which they executed chunks.
    """

    latency_ns: float
    runs_per_second: float
    busy: float


@dataclass(slots=True)
class _Op:
    """A task in progress. `called` are workers that have not begun yet; `workers` counts them too."""

    run: _Run
    number: int
    task: TimedTask
    left: int
    workers: int = 1
    called: list[int] = field(default_factory=list)

    @property
    def saved_ns(self) -> float:
        """What one more worker would save."""
        return self.left * self.task.ns / self.task.chunks / (self.workers + 1)

    def takes(self, most: int) -> bool:
        """Whether another worker may join, of `most` at most."""
        cap = min(most, self.task.most_workers or most, self.task.chunks)
        return self.left > 0 and self.workers < cap


@dataclass(slots=True)
class _Run:
    """A run in progress: what waits for what, what is ready, and the ops that have begun."""

    client: int
    began: float
    pending: list[int]
    ready: list[tuple[float, int]]
    unfinished: int
    ready_ns: float = 0.0
    ops: list[_Op] = field(default_factory=list)
    workers: int = 0


def simulate(graph: TaskGraph, limits: Limits, costs: Costs, clients: int = 1) -> Simulated:
    """Returns how long runs of `graph` take.

    Args:
        graph: What to replay.
        limits: How many workers may be inside one op, and how many ops of a run may be in progress. The larger one is
            the number of workers, each of which has a core.
        costs: What the machine takes beside the arithmetic of chunks.
        clients: How many callers run the model at once, each again as soon as its run has ended.
    """
    if not graph.tasks:
        return Simulated(graph.outside_ns, clients * 1e9 / max(graph.outside_ns, 1.0), 0.0)
    return _Machine(graph, limits, costs, clients).result()


class _Machine:
    """A simulation: events in order of their time, in which a client begins a run, or a worker has finished a chunk."""

    def __init__(self, graph: TaskGraph, limits: Limits, costs: Costs, clients: int) -> None:
        self._graph, self._limits, self._costs, self._clients = graph, limits, costs, clients
        self._cores = max(limits)
        self._after: list[list[int]] = [[] for _ in graph.tasks]
        for number, task in enumerate(graph.tasks):
            for before in task.after:
                self._after[before].append(number)
        self._events: list[tuple[float, int, int, _Op | None]] = []
        self._idle = list(range(self._cores - 1, -1, -1))
        self._turns = [0] * self._cores  # numbers of the last events of workers: earlier ones have been revoked
        self._asked = [0.0] * self._cores  # bytes of memory a ns that each worker asks for
        self._scheduled = 0
        self._runs: list[_Run] = []
        self._lock_free = 0.0
        self._busy_ns = 0.0
        self._far = 0.0
        self._ends: list[list[float]] = [[] for _ in range(clients)]
        self._latencies: list[float] = []

    def result(self) -> Simulated:
        """Returns what the simulation of all runs found."""
        runs = 1 if self._clients == 1 else _CLIENT_RUNS
        for client in range(self._clients):
            self._client(0.0, client)
        now = 0.0
        while self._events:
            now, turn, worker, op = heapq.heappop(self._events)
            if op is None:
                self._begin_run(now, worker)
            elif self._turns[worker] == turn:
                self._next_chunk(now, worker, op, runs)
        if runs == 1:
            return Simulated(self._latencies[0], 1e9 / self._latencies[0], self._busy_ns / (now * self._cores))
        rate = sum((runs - 1) / (ends[-1] - ends[0]) for ends in self._ends)
        latency = statistics.median(self._latencies[self._clients :])
        return Simulated(latency, 1e9 * rate, self._busy_ns / (now * self._cores))

    def _client(self, now: float, client: int) -> None:
        """Lets a client prepare its next run."""
        self._scheduled += 1
        heapq.heappush(self._events, (now + self._graph.outside_ns, self._scheduled, client, None))

    def _assign(self, at: float, worker: int, op: _Op) -> None:
        """Lets a worker draw a chunk of `op` at the time `at`."""
        self._scheduled += 1
        self._turns[worker] = self._scheduled
        heapq.heappush(self._events, (at, self._scheduled, worker, op))

    def _locked(self, now: float) -> float:
        """Returns when a worker that asks for the lock at `now` has done what it needs it for."""
        if self._cores == 1 and self._clients == 1:
            return now  # the serial path takes no lock
        self._lock_free = max(now, self._lock_free) + self._costs.lock_ns
        return self._lock_free

    def _begin_run(self, now: float, client: int) -> None:
        tasks = self._graph.tasks
        ready = [(-task.priority, number) for number, task in enumerate(tasks) if not task.after]
        run = _Run(client, now, [len(task.after) for task in tasks], ready, len(tasks))
        heapq.heapify(run.ready)
        run.ready_ns = sum(tasks[number].ns for _, number in ready)
        self._runs.append(run)
        self._dispatch(self._locked(now), calls_ns=0.0)

    def _next_chunk(self, now: float, worker: int, op: _Op, runs: int) -> None:
        """Lets the worker draw a chunk of its op, or leave it if there is none."""
        if worker in op.called:
            op.called.remove(worker)
        self._far -= self._asked[worker]
        self._asked[worker] = 0.0
        if op.left == 0:
            self._leave(now, worker, op, runs)
            return
        op.left -= 1
        task = op.task
        far = task.far_bytes / task.ns if task.ns else 0.0
        near = task.near_bytes / task.ns if task.ns else 0.0
        self._asked[worker] = far
        self._far += far
        slower = 1.0
        if len(self._idle) < self._cores - 1:
            slower = max(1.0, near / self._costs.near_bytes_per_ns, self._far / self._costs.far_bytes_per_ns)
        took = task.ns / task.chunks * slower
        self._busy_ns += took
        self._assign(now + took + (self._costs.chunk_ns if task.chunks > 1 else 0.0), worker, op)

    def _leave(self, now: float, worker: int, op: _Op, runs: int) -> None:
        """Ends the worker's part in its op, and the op if it was the last one; then gives workers what is to be
        done."""
        now, run = self._locked(now), op.run
        op.workers -= 1
        run.workers -= 1
        for called in op.called:  # no chunk is left to begin
            self._turns[called] = 0
            self._idle.append(called)
        op.workers -= len(op.called)
        run.workers -= len(op.called)
        op.called.clear()
        if op.workers == 0:
            run.ops.remove(op)
            self._finish(now, worker, op, runs)
        following = self._following(worker, run)
        if following is None:
            self._idle.append(worker)
        else:
            self._assign(now, worker, following)
        self._dispatch(now, calls_ns=self._costs.wake_ns)

    def _finish(self, now: float, worker: int, op: _Op, runs: int) -> None:
        """Makes the tasks ready that waited for an op that has ended; ends the run if it was the last one."""
        run = op.run
        for number in self._after[op.number]:
            run.pending[number] -= 1
            if run.pending[number] == 0:
                heapq.heappush(run.ready, (-self._graph.tasks[number].priority, number))
                run.ready_ns += self._graph.tasks[number].ns
        run.unfinished -= 1
        if run.unfinished:
            return
        self._runs.remove(run)
        end = now + (self._costs.wake_ns if worker else 0.0)  # worker 0 is the thread of a single caller
        self._ends[run.client].append(end)
        self._latencies.append(end - run.began + self._graph.outside_ns)
        if len(self._ends[run.client]) < runs:
            self._client(end, run.client)

    def _can_start(self, run: _Run) -> bool:
        return bool(run.ready) and len(run.ops) < self._limits.inter_op

    def _following(self, worker: int, own: _Run) -> _Op | None:
        """Returns what a worker does next that has left an op of `own`; None if there is nothing.

        It takes a ready task, of a run without workers if there is one, else it joins the op where it saves most.
        """
        waiting = (run for run in self._runs if run.workers == 0 and self._can_start(run))
        for run in (*waiting, own, *self._runs):
            if self._can_start(run):
                return self._start(run)
        return self._join(worker, self._costs.wake_ns)

    def _start(self, run: _Run) -> _Op:
        _, number = heapq.heappop(run.ready)
        task = self._graph.tasks[number]
        run.ready_ns -= task.ns
        op = _Op(run, number, task, task.chunks)
        run.ops.append(op)
        run.workers += 1
        return op

    def _join(self, worker: int, least_ns: float) -> _Op | None:
        """Returns the op in progress where another worker saves most, and at least `least_ns`, with the worker in
        it."""
        for run in self._runs:
            ops = [op for op in run.ops if op.takes(self._limits.intra_op) and op.saved_ns >= least_ns]
            if ops:
                best = max(ops, key=lambda op: op.saved_ns)
                best.workers += 1
                best.called.append(worker)
                run.workers += 1
                return best
        return None

    def _dispatch(self, now: float, calls_ns: float) -> None:
        """Calls idle workers for ready tasks and for ops in progress, where that pays."""
        for run in self._runs:
            while self._idle and self._can_start(run):
                if run.workers and run.ready_ns / 2 < self._costs.wake_ns:
                    break
                begins = now + (self._costs.wake_ns if run.workers else calls_ns)
                self._assign(begins, self._idle.pop(), self._start(run))
        while self._idle:
            op = self._join(self._idle[-1], self._costs.wake_ns)
            if op is None:
                return
            self._assign(now + self._costs.wake_ns, self._idle.pop(), op)
