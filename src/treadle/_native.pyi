"""The native core of treadle: a team of threads and the DAGs that it runs. native/README.md explains the core."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np

_Operands: TypeAlias = Sequence[tuple[int, int]]
_Code: TypeAlias = int | Callable[[tuple[int, ...]], object] | ControlStep
_Step: TypeAlias = tuple[_Code, _Operands, Sequence[int], int, float]
_Buffers: TypeAlias = Sequence[tuple[str, int]]

DEFAULT_SPIN_US: float
"""How long an idle worker spins before it parks, microseconds."""

COMPILER: str
"""Name and version of the compiler that built this module."""

MAX_THREADS: int
"""The largest limit that a team accepts."""

LEAST_CHUNK: float
"""A short op has eight chunks, unless each would be worth less than this part of a chunk of a long op."""

class KernelFailure(RuntimeError):
    """A kernel returned a non-zero code."""

    program: int
    step: int
    code: int

class RunTimeout(RuntimeError):
    """A run did not end in time."""

class RunCancelled(RuntimeError):
    """A run was cancelled, or was called from inside one that has ended."""

class NoThread(RuntimeError):
    """A run needs a thread of its own, for a blocking step, and none can be started."""

class CancelToken:
    """Ends the runs that it was given to, later ones included."""
    def __init__(self) -> None: ...
    def cancel(self) -> None:
        """End the runs. Any thread may call this, at any time and more than once."""
    @property
    def cancelled(self) -> bool: ...

class Resting:
    """A context in which a step waits for a run in another thread without keeping other workers from executing."""
    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class RunLimits:
    """Limits of all runs that refer to this object, those in progress included."""
    def __init__(self) -> None: ...
    def set(self, intra_op: int, inter_op: int) -> None:
        """Change both limits (0: unset) from the next op boundary on, in any thread. Raises ValueError if wrong."""
    def get(self) -> tuple[int, int]:
        """(intra_op, inter_op)"""

class TeamStatus(TypedDict):
    """A snapshot of a team.

    `workers`, `blocking` and `abandoned` count threads that are alive: compute workers, blocking workers, and detached
    workers in steps of abandoned runs. `slots` are in use, `spinning` threads are idle but not parked, `runs` are in
    progress, and `waiting` of them have no worker. `pin_fault` says why a worker is not pinned as requested, and
    `thread_fault` why there are fewer threads than there should be; "" if there is no fault.
    """

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
    """A team of threads with two limits: workers inside one op, and ops in progress; callers included.

    Threads start when they first pay, and are named treadle-<name>-<i>. A child made by fork() starts its own.
    Raises ValueError for limits not in 1..MAX_THREADS.
    """
    def __init__(self, name: str, intra_op: int, inter_op: int, spin_us: float = ...) -> None: ...
    def set_limits(self, intra_op: int, inter_op: int) -> None:
        """Change both limits from the next op boundary on. Any thread may call this at any time."""
    @property
    def limits(self) -> tuple[int, int]:
        """(intra_op, inter_op)."""
    def set_spin(self, spin_us: float) -> None:
        """Change how long idle workers spin before they park, in microseconds, at once. Infinity is allowed."""
    @property
    def spin_us(self) -> float: ...
    def set_cpus(self, cpus: Sequence[int]) -> None:
        """Pin worker i to cpus[i % len(cpus)], callers never; an empty list unpins.

        A pin that fails later, when a worker starts, is one line on stderr and in status().
        """
    @property
    def name(self) -> str: ...
    def status(self) -> TeamStatus:
        """Return a snapshot of the team."""
    @property
    def threads(self) -> int:
        """How many threads the team has started that are alive."""
    def close(self) -> None:
        """Wait for runs in progress and join the threads. Later runs raise RuntimeError."""

def set_engine(address: int) -> None:
    """Have the function at `address`, of the type of GOMP_parallel, execute the chunks of ops; 0 for the team.

    Raises RuntimeError if a run has begun with another engine.
    """

def engine_is_fixed() -> bool:
    """Return whether a run has begun in this process, after which no other engine can be set."""

def library_gemm(
    form: str, is_double: bool, gemm: int, get_threads: int = 0, set_threads: int = 0, swap_threads: int = 0,
    alone: int = 0
) -> tuple[int, int]:  # fmt: skip
    """Return (address of a kernel, its first argument) that multiply by the library function at address `gemm`.

    `form` is "cblas" (32-bit ints), "cblas64" or "dnnl". The functions at the other addresses confine the library
    to the calling thread, see native/include/treadle/library_gemm.h. Raises ValueError for another form.
    """

class ControlStep:
    """A branch or loop as the code of a step. It runs programs, its bodies, on memory of its operands."""
    @staticmethod
    def branch(condition: int, yes: tuple[Program, Sequence[int]], no: tuple[Program, Sequence[int]]) -> ControlStep:
        """Return a step that runs one of two bodies; the byte at the pointer with the number `condition` decides.

        A body is (program, the number of the step's pointer for each address that it is bound to).
        """
    @staticmethod
    def loop(
        body: Program, has_limit: bool, has_condition: bool, decides: bool, carried: Sequence[int],
        stacked: Sequence[int], sliced: Sequence[int], captured: int, most: int
    ) -> ControlStep:  # fmt: skip
        """Return a step that runs `body` again and again.

        `carried` are the bytes of the carried values, `stacked` and `sliced` those of an item, `most` is a limit of
        iterations (-1: none). native/include/treadle/control_flow.h says what the others mean and in which order the
        pointers are. Raises ValueError for a negative size.
        """

class Program:
    """An immutable DAG of tasks made of steps.

    steps: (kernel address, callable or ControlStep, (buffer, byte offset) of each operand, int arguments, chunks,
    estimated ns). tasks: (first step, number of steps, priority, blocking). successors: those of each task.
    buffers: ("arena", byte offset), ("constant", address) or ("bound", index into run's `bound`).
    max_workers: caps how many workers may share each step (0: no cap); empty for none.
    hand_over: wake_ns, unpark_ns and line_ns of the machine model that costs are of (default: the generic one).
    A callable gets the addresses of its operands as one tuple, with the GIL, and its chunks must be 1.
    The owner of the program keeps the memory of constants alive. Raises ValueError that names the faulty entry, what is
    allowed, and its value.
    """
    def __init__(
        self, steps: Sequence[_Step], tasks: Sequence[tuple[int, int, float, bool]],
        successors: Sequence[Sequence[int]], buffers: _Buffers, arena_bytes: int, scratch_bytes: int,
        max_workers: Sequence[int] = (), hand_over: tuple[float, float, float] = ...
    ) -> None: ...  # fmt: skip
    def run(
        self, team: Team, bound: list[Any], intra_op: int = 0, inter_op: int = 0, priority: int = 0,
        timeout: float = ..., cancel: CancelToken | None = None, own: RunLimits | None = None,
        common: RunLimits | None = None, keep: object = None, part: bool = False, caller_waits: bool = False
    ) -> None:  # fmt: skip
        """Run once and return when all tasks have finished. Thread-safe; releases the GIL; may be called inside a step.

        `bound` are contiguous arrays, or addresses as numbers; the caller keeps the memory alive. Each limit is the
        first that is not 0 of `own`, `intra_op` and `inter_op`, `common`, the team's. If the run is ended by a timeout,
        a token or a signal, it does not wait for Python steps in other threads; the program, `bound` and `keep` live
        until these end. A `part` of the run around the calling step runs on that run's team instead of `team`, with its
        limits where it sets none. Runs of higher `priority` are served first, equal ones by turns; `timeout` is in
        seconds (none by default). A nested run ends with the run around it. If the `caller_waits`, other threads
        execute the run, so that it ends in time whatever its Python steps do.

        Raises what a callable raised, KernelFailure, RunTimeout, RunCancelled, KeyboardInterrupt; ValueError for a
        wrong number of `bound` addresses; RuntimeError if the team is closed.
        """
    def set_caps(self, max_workers: Sequence[int]) -> None:
        """Cap how many workers may share each step (0: no cap) from the next op boundary on, also of runs in progress.

        Any thread may call this. Raises ValueError, and then changes nothing, for a wrong count or a negative cap.
        """
    def trim(self) -> None:
        """Free the memory of idle contexts."""
    @property
    def id(self) -> int:
        """The program id in its trace events."""
    @property
    def cost_ns(self) -> float:
        """Estimated time of all tasks on one core."""
    @property
    def critical_path_ns(self) -> float:
        """Estimated time of the longest path of tasks."""
    @property
    def arena_bytes(self) -> int:
        """Bytes of one arena."""
    @property
    def contexts(self) -> int:
        """How many contexts exist, idle and in use."""
    @property
    def arenas(self) -> int:
        """How many arenas exist, idle and in use."""

class BindingFailure(RuntimeError):
    """A template does not serve the given sizes.

    `kind` says what failed, and `number` which one: an operation ("overflow", "division", "range"), a "guard", a
    "requested" size (negative), a "step" (negative chunks or offsets, or a cost that is not a finite number >= 0), a
    "buffer" (negative size), "scratch" (negative size), "arena" (more than 2**40 bytes).
    """

    kind: str
    number: int

class DeclaredArrays:
    """The declared inputs of a session, which recognise arrays that need no closer look.

    `array_type` is NumPy's type of arrays. `inputs` are the name, dtype and shape of each: an int in a shape is a size,
    a str an open dimension.
    """
    def __init__(self, array_type: type, inputs: Sequence[tuple[str, np.dtype[Any], Sequence[int | str]]]) -> None: ...
    def fit(
        self, given: object
    ) -> tuple[list[np.ndarray[Any, Any]], tuple[tuple[int, ...], ...], dict[str, int]] | None:  # fmt: skip
        """Return the arrays of the dict `given` in the order of the inputs, their shapes, and the sizes of open
        dimensions by name.

        None unless it has just these inputs, all of them C-contiguous arrays of the declared dtypes and shapes, equal
        sizes for equal names.
        """

class KnownArrays:
    """Arrays that were checked, which recognise others like them: these need no check.

    `array_type` is as in DeclaredArrays. `names` are those of the `arrays`, which are C-contiguous.
    """
    def __init__(self, array_type: type, names: Iterable[str], arrays: Sequence[np.ndarray[Any, Any]]) -> None: ...
    def arrays(self, given: object) -> list[np.ndarray[Any, Any]] | None:
        """Return the arrays of the dict `given` in the order of the names.

        None unless it has just these names, all of them C-contiguous arrays of the same dtypes and shapes.
        """
    def matches(self, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
        """True if `arrays`, in the order of the names, are like these."""

class Sizes:
    """The values of all slots of a template for given symbols."""

class Rebinding:
    """What a program needs to be bound to one combination of sizes after another. One thread uses it at a time."""
    def __init__(self) -> None: ...

class ProgramTemplate:
    """A program whose arguments, chunks, costs and memory are computed when it is bound to sizes.

    A slot is an int64 or a double. Slots are numbered: first the `symbols`, then the `constants` (the bits of each),
    then the results of the operations. `operations` are int32 rows (operation, first operand); the operands of a row,
    int32 slots in `operands`, end where those of the next row begin. `native/include/treadle/binder.h` says what the
    operations mean; treadle.plan.binder makes them.

    steps: (kernel address, or None for a callable that bind() is given, (buffer, slot of the byte offset) of each
    operand, slots of the arguments, slot of the chunks, slot of the estimated ns, a real). tasks: (first step, number
    of steps, blocking). successors: those of each task. buffers: ("arena", slot of the size in bytes), ("constant",
    address) or ("bound", index into run's `bound`). rivals: pairs of buffers in the arena that must not overlap.
    scratch_bytes: a slot. guards: slots that must not hold 0. requested: slots whose values requested() returns.
    max_workers and hand_over: as in Program.

    Any thread may use it. Raises ValueError that names the faulty entry, what is allowed, and its value.
    """
    def __init__(
        self, symbols: int, constants: Any, operations: Any, operands: Any,
        steps: Sequence[tuple[int | None, _Operands, Sequence[int], int, int]],
        tasks: Sequence[tuple[int, int, bool]], successors: Sequence[Sequence[int]], buffers: _Buffers,
        rivals: Sequence[tuple[int, int]], scratch_bytes: int, guards: Sequence[int], requested: Sequence[int],
        max_workers: Sequence[int] = (), hand_over: tuple[float, float, float] = ...
    ) -> None: ...  # fmt: skip
    def evaluate(self, symbols: Sequence[int]) -> Sizes:
        """Return the sizes for the symbols' values.

        Raises BindingFailure if an operation fails, or else if a guard does not hold, or else if a requested size is
        negative; ValueError for a wrong number of symbols.
        """
    def requested(self, sizes: Sizes, ranks: Sequence[int | None]) -> list[tuple[int, ...] | None]:
        """Return the values of the requested slots, so many in a tuple as the next of `ranks` says, or None."""
    def args(self, sizes: Sizes, step: int) -> list[int]:
        """Return the values of the step's arguments."""
    def bind(
        self, sizes: Sizes, outputs: Sequence[tuple[int, int]] = (), max_workers: Sequence[int] = (),
        functions: Sequence[Callable[[tuple[int, ...]], None] | ControlStep] = (), shares_id: bool = False
    ) -> Program:  # fmt: skip
        """Return a Program for the sizes; releases the GIL. If `shares_id` is true, its id is program_id.

        `outputs` says where the outputs lie, which the last bound indices stand for: (number of the memory after that
        of the inputs, byte offset) of each; empty: each in its own. `max_workers` replaces the caps unless it is empty.
        `functions` are the callables of the steps without a kernel, in the order of the steps, as in Program. Raises
        BindingFailure; ValueError for sizes of another template, or faulty `outputs`, `max_workers` or `functions`.
        """
    def evaluate_next(
        self, rebinding: Rebinding, symbols: Sequence[int], ranks: Sequence[int | None]
    ) -> list[tuple[int, ...] | None]:
        """Return what requested() does for the next bind_next() with the symbols' values.

        Once a program is bound, it computes only what depends on symbols whose values differ from those of that
        program. Raises as evaluate() does; evaluate_next() must then succeed before the next bind_next().
        """
    def rebind(
        self, rebinding: Rebinding, symbols: Sequence[int], bound: Program, outputs: Sequence[tuple[int, int]],
        max_workers: Sequence[int], ranks: Sequence[int | None]
    ) -> tuple[list[tuple[int, ...] | None], Program]:  # fmt: skip
        """Do what evaluate_next() does, and then bind_next() with `bound`; return what both do.

        Raises as both do; `rebinding` and `bound` must then not be used.
        """
    def bind_next(
        self, rebinding: Rebinding, bound: Program | None, outputs: Sequence[tuple[int, int]] = (),
        max_workers: Sequence[int] = ()
    ) -> Program:  # fmt: skip
        """Bind `bound`, a program that this function has returned for `rebinding`, to the sizes of evaluate_next().

        Returns `bound`, or a new program if it is None or in use by a run. All steps must be kernels. Meanwhile no run
        of it may begin, and no caps may be set. Raises as bind() does; both must then not be used.
        """
    @property
    def program_id(self) -> int:
        """The id, in trace events, of the programs of data stages, of bind_next(), and of bind() with `shares_id`."""
    @property
    def arena_allocations(self) -> int:
        """How many arenas its programs have allocated so far."""
    def trim(self) -> None:
        """Free the arenas that no run of its programs uses."""

class Lease:
    """Memory of results, aligned to 64 bytes. It returns to its pool when nothing refers to it any more."""
    def __buffer__(self, flags: int, /) -> memoryview: ...

class MappedFile:
    """A mapped part of a file, as a read-only buffer. Any thread may use it.

    If another process cuts the file, what is gone is read as zeros.
    """
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def was_cut(self) -> bool:
        """Whether a page was read that the file no longer had."""
    def release(self, first: int, last: int, /) -> None:
        """Drop the pages that lie within the bytes [first, last). They are read again on use."""

def map_file(handle: int, offset: int, size: int, huge_pages: bool) -> MappedFile:
    """Map `size` bytes of the open file `handle` from `offset`, a multiple of the page size.

    The handle stays the caller's. `huge_pages` advises the system to use large pages. Raises OSError if that fails.
    """

def any_file_was_cut() -> bool:
    """Return whether any mapped file of this process was found to be cut."""

class SizedMemory:
    """An output whose shape a run finds. A run is bound to the object itself; put() fills the one at an address."""
    def __init__(self) -> None: ...
    def take(self) -> tuple[Lease, list[int]] | None:
        """Return (memory, shape) and forget both; None if no run has made the output."""
    put: Callable[[int, Lease, Sequence[int]], None]

class StepMaker:
    """What makes a branch, loop or stage as a step of a template when that is bound."""

    branch: Callable[..., StepMaker]
    loop: Callable[..., StepMaker]
    stage: Callable[..., StepMaker]

class DataStage:
    """Programs for what follows sizes that depend on data, bound in the run. Any thread may use it.

    Outputs have elements of `element_bytes`, in memory of `pool`. `miss` is called, in the run, with sizes that no
    template serves: it adds one and returns None, or returns (program, shapes of its outputs; None: a stage finds it).
    """
    def __init__(self, element_bytes: Sequence[int], pool: BufferPool, miss: Callable[[list[int]], Any]) -> None: ...
    def add(self, *source: Any) -> None:
        """Add a template: the template, order, ranks and caps, and the makers of its steps that are no kernels."""
    def replace(self, number: int, *source: Any) -> None:
        """Put a template in place of the one with this number; the arguments are those of add()."""
    def set_caps(self, source: int, max_workers: Sequence[int]) -> None:
        """Cap how many workers may share each step of the template with this number, as Program.set_caps() does."""

    set_loop: Callable[..., None]
    set_branch: Callable[..., None]
    """Each has steps run a loop or branch in front; data_loop.h and data_branch.h say what the arguments are."""
    def trim(self) -> None:
        """Free idle memory."""
    def step(self, args: Sequence[int], counts: Sequence[int]) -> ControlStep:
        """Return a step. It has pointers to outputs, one for each of `counts` to so many sizes, and to operands."""

class BufferPool:
    """Leases buffers, of several equal ones that which was returned last. Any thread may use it.

    If the idle buffers of all pools of the process exceed `max_idle_bytes` when one is returned, those returned first
    are freed. A `shared` pool leases idle buffers of up to twice the requested size, too, and keeps no more idle bytes
    than it ever leased at once.
    """
    def __init__(self, max_idle_bytes: int, shared: bool) -> None: ...
    @property
    def allocations(self) -> int:
        """How many buffers it has allocated since it was made."""
    def acquire(self, size: int) -> Lease:
        """Return memory of at least `size` bytes, with undefined content, that nothing else refers to.

        If the system has none, the idle buffers of all pools are freed first. Raises MemoryError if that is too little.
        """
    def clear(self) -> None:
        """Free the idle buffers of this pool."""
    @staticmethod
    def idle_bytes() -> int:
        """Return the size of the idle buffers of all pools."""

def imbalance_factor(chunks: int) -> float:
    """Return the time of `chunks` (at least 1) relative to perfect balance, averaged over usual numbers of workers."""

def units_per_chunk(units: int, ns_per_unit: float, usual_chunk_ns: float, multiple: int = 1) -> int:
    """Return the units of a chunk, a multiple of `multiple`; 1 without units. In long ops it takes `usual_chunk_ns`."""

def choose_grid(
    blocks: int, panels: int, batches: int, block_ns: float, a_bytes: float, b_bytes: float, l2: int, copies: bool,
    share: float, l2_bytes_per_ns: float, l3_bytes_per_ns: float, usual_chunk_ns: float
) -> tuple[int, int, int]:  # fmt: skip
    """Return the batches, blocks and panels of each chunk of a batch of matrix products.

    `block_ns` is the time of one block of one panel, `a_bytes` and `b_bytes` the sizes of one product's factors,
    `share` the part of the depth that is multiplied at once. Where `copies` is true, b is copied, by each chunk or,
    where several would copy the same panel, beforehand. Bandwidths are those of the machine model, here and below.
    """

def partition_conv(
    units: int, groups: int, ns: float, weight_bytes: int, x_bytes: int, l3_shared_bytes_per_ns: float,
    usual_chunk_ns: float
) -> tuple[int, int]:  # fmt: skip
    """Return the units and the groups of output channels of each chunk of a direct convolution that takes `ns`.

    Each chunk of units reads `weight_bytes`, each chunk of groups `x_bytes`. Raises ValueError without units or groups.
    """

def partition_planes(planes: int, rows: int, ns: float, usual_chunk_ns: float) -> tuple[int, int]:
    """Return the planes and rows of each chunk of a depthwise convolution that takes `ns`. ValueError without any."""

def partition_winograd(
    tiles: int, least: int, most: int, vectors: int, room: int, channels: int, in_blocks: int, out_blocks: int,
    points: int, sections: int, fused: bool, input_cost: float, output_cost: float, factor_cost: float,
    first_cost: float, weight_bytes: int, vector_bytes: int, l2: int, l3_byte_cost: float, reread_cost: float,
    call_cost: float, chunk_cost: float, in_flight: int
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Return the cheapest partition of a convolution by Winograd's algorithm.

    The tiles of a group, the groups of outputs of a chunk, and costs in vector multiply-adds: of the transform of the
    input, of all else, and of both with the load imbalance. `native/include/treadle/winograd.h` says what the arguments
    mean. Raises ValueError for sizes and costs that are out of range.
    """

def choose_band(
    images: int, out_rows: int, rows: int, row_bytes: int, reach: int, stride: int, weight_bytes: int, scratch: int,
    conv_ns: float, pool_ns: float, l2: int, l3_bytes_per_ns: float, l3_shared_bytes_per_ns: float,
    usual_chunk_ns: float
) -> int:  # fmt: skip
    """Return the pooled rows of each chunk of a convolution that is pooled at once; 0 if two calls are faster.

    The convolution has `rows` rows of `row_bytes`, needs `scratch` bytes beside them and takes `conv_ns`; the pooled
    image has `out_rows`, and a window reads `reach` rows. Costs are rows that two chunks compute, weights that each
    reads, and load imbalance. Two calls are faster where these exceed the time to write the convolution's result to
    memory once. Raises ValueError for sizes below 1.
    """

def check_run() -> None:
    """Raise RunTimeout or RunCancelled if the run around the calling step, if there is one, has ended or should end."""

def begin_iteration(number: int) -> None:
    """Do what check_run() does, and give runs that the calling step calls this number in their events."""

def trace_start() -> None:
    """Drop earlier events and start recording."""

def trace_stop() -> list[tuple[int, int, int, int, int, int, int, int, int, int]]:
    """Stop recording. Return each worker's parts in steps by start time: (program id, step, team, slot, OS thread,
    start_ns, end_ns, chunks, run id, iteration, -1 outside loops). Slot -1 - i is blocking worker i. Monotonic times.
    """
