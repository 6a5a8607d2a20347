"""The native core of treadle: a team of threads and the DAGs it runs. native/README.md explains it."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

DEFAULT_SPIN_US: float
"""How long an idle worker spins before it parks, microseconds."""

COMPILER: str
"""What this module was compiled with."""

MAX_THREADS: int
"""The largest limit a team takes."""

class KernelFailure(RuntimeError):
    """A kernel returned a non-zero code."""

    step: int
    code: int

class RunTimeout(RuntimeError):
    """A run did not end in time."""

class RunCancelled(RuntimeError):
    """A run was cancelled, or was called from inside one that has ended."""

class NoThread(RuntimeError):
    """A run needs a thread of its own, for a blocking step, and none can be started."""

class CancelToken:
    """Ends the runs it was given to, those to come included."""

    def __init__(self) -> None: ...
    def cancel(self) -> None:
        """End them. Any thread, any time, any number of times."""

    @property
    def cancelled(self) -> bool: ...

class Resting:
    """Around waiting, inside a step, for a run in another thread: that keeps nobody from working."""

    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class RunLimits:
    """Limits of all runs that refer to them, those in progress included."""

    def __init__(self) -> None: ...
    def set(self, intra_op: int, inter_op: int) -> None:
        """Change them, effective at the next op boundary; 0 leaves a limit to others. Any thread, any time.

        ValueError for what is impossible.
        """

    def get(self) -> tuple[int, int]:
        """(intra_op, inter_op)"""

class TeamStatus(TypedDict):
    """What a team is doing: threads alive (workers, blocking, and those in steps of abandoned runs), places in use, threads that spin, runs in progress
    and those of them that nobody works for, and why a worker runs unpinned though it should not ("" if none does)."""

    workers: int
    blocking: int
    abandoned: int
    slots: int
    spinning: int
    runs: int
    waiting: int
    pin_fault: str
    thread_fault: str

class Team:
    """Threads with two limits: workers inside one op, and ops in progress; callers included.

    Threads start when they first pay, and are named treadle-<name>-<i>. A child made by fork() gets fresh ones.
    Raises ValueError for limits not in 1..MAX_THREADS.
    """

    def __init__(self, name: str, intra_op: int, inter_op: int, spin_us: float = ...) -> None: ...
    def set_limits(self, intra_op: int, inter_op: int) -> None:
        """Change both limits, effective at the next op boundary. Any thread, any time."""

    @property
    def limits(self) -> tuple[int, int]:
        """(intra_op, inter_op)."""

    def set_spin(self, spin_us: float) -> None:
        """How long idle workers spin before they park, microseconds; infinity is allowed. Takes effect at once."""

    @property
    def spin_us(self) -> float: ...
    def set_cpus(self, cpus: Sequence[int]) -> None:
        """Pin worker i to cpus[i % len(cpus)], callers never; an empty list unpins.

        A pin that fails later, when a worker starts, is one line on stderr and in status().
        """

    @property
    def name(self) -> str: ...
    def status(self) -> TeamStatus:
        """What it is doing."""

    @property
    def threads(self) -> int:
        """Threads started and alive, callers excluded."""

    def close(self) -> None:
        """Wait for runs in progress and end the threads. Later runs raise RuntimeError."""

def set_engine(address: int) -> None:
    """Have the function at `address`, of the form of GOMP_parallel, spread the chunks of ops; 0 for the team.

    RuntimeError if a run has begun with another one.
    """

def engine_is_fixed() -> bool:
    """Whether a run has begun in this process, so that no other engine can be set."""

def library_gemm(
    form: str,
    is_double: bool,
    gemm: int,
    get_threads: int = 0,
    set_threads: int = 0,
    swap_threads: int = 0,
    alone: int = 0,
) -> tuple[int, int]:
    """(address of a kernel, its first argument) for products by the library function at address `gemm`.

    `form`: "cblas" (32-bit ints), "cblas64" or "dnnl". The other addresses keep the library in the calling thread, see
    native/include/treadle/library_gemm.h. ValueError for another form.
    """

class Program:
    """An immutable DAG of tasks made of steps.

    steps: (kernel address or callable, (slot, byte offset) of each buffer, int parameters, chunks, estimated ns).
    tasks: (first step, number of steps, priority, blocking). successors: those of each task.
    slots: ("arena", byte offset), ("constant", address) or ("bound", index into run's `bound`).
    `max_workers` caps how many workers may share each step (0: no cap); empty for none.
    A callable gets the buffers' addresses as one tuple, with the GIL, and its chunks must be 1.
    Whoever holds the program keeps the memory of constants alive. Raises ValueError saying where, what was wanted and
    what came.
    """

    def __init__(
        self,
        steps: Sequence[
            tuple[
                int | Callable[[tuple[int, ...]], object],
                Sequence[tuple[int, int]],
                Sequence[int],
                int,
                float,
            ]
        ],
        tasks: Sequence[tuple[int, int, float, bool]],
        successors: Sequence[Sequence[int]],
        buffers: Sequence[tuple[str, int]],
        arena_bytes: int,
        scratch_bytes: int,
        max_workers: Sequence[int] = (),
    ) -> None: ...
    def run(
        self,
        team: Team,
        bound: list[Any],
        intra_op: int = 0,
        inter_op: int = 0,
        priority: int = 0,
        timeout: float = ...,
        cancel: CancelToken | None = None,
        own: RunLimits | None = None,
        common: RunLimits | None = None,
        keep: object = None,
        part: bool = False,
    ) -> None:
        """Run once; returns when all is done. Thread-safe, releases the GIL, may be called inside a step.

        `bound` are contiguous arrays, or addresses as numbers; the caller keeps the memory alive. Each limit is the
        first that is not 0 of `own`, `intra_op` and `inter_op`, `common`, the team's. A run that is ended by a timeout,
        a token or a signal leaves Python steps in other threads than the caller's to themselves: until they end, the
        program, `bound` and `keep` live. A `part` of the run around the calling step runs on the team of that run in
        place of `team`, and has its limits where it asks for none. Runs of higher `priority` are served first, equal ones by turns; `timeout` is in
        seconds (none by default). A nested run ends with the run around it. Raises what a callable raised,
        KernelFailure, RunTimeout, RunCancelled, KeyboardInterrupt; ValueError for a wrong number of `bound` addresses;
        RuntimeError if the team is closed.
        """

    def set_caps(self, max_workers: Sequence[int]) -> None:
        """Cap how many workers may share each step (0: no cap), effective at the next op boundary of runs in progress.

        Any thread, any time. Raises ValueError, and then changes nothing, for a wrong count or a negative cap.
        """

    def trim(self) -> None:
        """Free the memory of idle contexts."""

    @property
    def id(self) -> int:
        """The program id of its trace events."""

    @property
    def arena_bytes(self) -> int:
        """Bytes of one arena."""

    @property
    def contexts(self) -> int:
        """Contexts that exist, idle and in use."""

    @property
    def arenas(self) -> int:
        """Arenas that exist, idle and lent to runs."""

class Lease:
    """Memory of results, aligned to 64 bytes. It goes back to its shelf when nothing refers to it any more."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class BufferPool:
    """Lends pieces of memory of `size` bytes; what came back last is lent first. Any thread.

    A piece that comes back while more than `max_idle_bytes` bytes lie on all shelves of the process has those freed that came back
    first.
    """

    def __init__(self, size: int, max_idle_bytes: int) -> None: ...
    def acquire(self) -> Lease:
        """Memory of undefined content that nothing else refers to.

        Where the system has none, what lies on all shelves is freed first; MemoryError if that does not do.
        """

    def clear(self) -> None:
        """Free what lies on it."""

    @staticmethod
    def idle_bytes() -> int:
        """How much lies on all shelves."""

def check_run() -> None:
    """Raise RunTimeout or RunCancelled if the run around the calling step has ended or should; nothing outside steps."""

def trace_start() -> None:
    """Forget earlier events and record from now on."""

def trace_stop() -> list[tuple[int, int, int, int, int, int, int, int, int]]:
    """Stop recording. Returns the events by start time.

    Each is one worker's part in a step: (program id, step, team, place, OS thread, start_ns, end_ns, chunks,
    run id). Places are 0.. for the team, -1 - i for its blocking thread i; times are CLOCK_MONOTONIC.
    """
