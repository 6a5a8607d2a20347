"""Executables: machine code and the task graph that the native core runs."""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from treadle import _native
from treadle.errors import InternalError, KernelError, MemoryLimitError, RunTimeoutError, ThreadLimitError
from treadle.graph.node import smallest_cap
from treadle.runtime.caps import effective_caps
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.control_form import ControlForm
from treadle.runtime.mapped_images import refuse_cut_images
from treadle.runtime.outputs import ArraySpec, OutputForm, OutputPool, Outputs, SizedSpec
from treadle.tracing.registry import PROGRAMS, StepLabel

Array = np.ndarray[Any, Any]
PythonStep = Callable[[tuple[int, ...]], None]
"""Called with the addresses of a step's buffers, outputs first.

If it has an attribute `detachable` that is true, it is treadle's own. Any thread may call it: the caller of a run that
may end early leaves it to another one, and returns in time.
"""

_NO_DEADLINE = math.nan
"""The native core's seconds to the deadline of a run without one."""

FUNCTION_NS = 100_000.0
"""The estimated cost of a SingleFunction in ns. Any value will do: its run has no other task."""


class ControlLayout(NamedTuple):
    """A branch or loop as the body of a step: the bodies that it runs, and how the step is made of their programs."""

    bodies: Sequence[Layout]
    form: ControlForm


class Part(Protocol):
    """Programs that steps of other programs run."""

    @property
    def is_detachable(self) -> bool:
        """Whether a step, or one of a body, is `detachable`."""
        ...

    def cap(self, caps: Mapping[str, int]) -> None:
        """Put a session's `caps` in force."""
        ...

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        ...


class Stage(Part, Protocol):
    """What runs behind sizes that depend on data, as `data_stage.DataStage` does."""

    form: Any
    compiler: Any
    ahead: Any
    bodies: Any

    @property
    def native(self) -> _native.DataStage:
        """The native core's part of it."""
        ...

    def step(self, args: Sequence[int], counts: Sequence[int]) -> _native.ControlStep:
        """Return a step that runs it for the sizes `args` and those that it reads.

        Its pointers are those to outputs, to sizes, of which each has so many as `counts` says, and to operands.
        """
        ...


class StageLayout(NamedTuple):
    """A stage as the body of a step, the sizes that are known, and how many the step reads at each pointer to some."""

    stage: Stage
    args: Sequence[int]
    counts: Sequence[int]


class Step(NamedTuple):
    """One call: a Python function, a branch, a loop, a stage or the address of a kernel, and its arguments.

    `pointers` are (buffer, byte offset) pairs. `cost` is the estimated time of all `chunks` on one core, in ns. `caps`
    are the caps on its workers (0: none), by name of the model's nodes whose work it does.
    """

    body: int | PythonStep | ControlLayout | StageLayout
    pointers: list[tuple[int, int]]
    args: list[int]
    chunks: int
    cost: float
    caps: Mapping[str, int]


class HandOver(NamedTuple):
    """What handing work to another thread takes on the machine that costs are estimated for.

    Its figures are those of the machine model with these names, by default the generic one's.
    """

    wake_ns: float = 1000.0
    unpark_ns: float = 20_000.0
    line_ns: float = 100.0


class Layout(NamedTuple):
    """The parts of an executable.

    `tasks` are (first step, number of steps, priority, blocking), `successors` the successors of each task. `buffers`
    are (kind, value) as the native core takes them; pointers are offsets in them. `failures` maps the status codes of
    kernels to errors and their messages. `isa` names the instruction set of the kernels ("" if there are none). `kept`
    is an object that lives as long as the layout: it owns the compiled kernels and the arrays of constants.
    """

    steps: Sequence[Step]
    labels: Sequence[StepLabel]
    tasks: Sequence[tuple[int, int, float, bool]]
    successors: Sequence[Sequence[int]]
    buffers: Sequence[tuple[str, int]]
    arena_bytes: int
    scratch_bytes: int
    outputs: Sequence[ArraySpec | SizedSpec]
    failures: Mapping[int, tuple[type[KernelError], str]]
    isa: str
    kept: object
    hand_over: HandOver = HandOver()


class Code(NamedTuple):
    """What the executables of one plan share, whatever their sizes; except `bodies`, which are an executable's own.

    `labels` and `caps` are those of each step; `failures`, `isa` and `kept` are as in Layout. `detachable` says whether
    one of the steps itself is. `bodies` are the programs that steps run.
    """

    labels: tuple[StepLabel, ...]
    caps: Sequence[Mapping[str, int]]
    failures: Mapping[int, tuple[type[KernelError], str]]
    isa: str
    kept: object
    detachable: bool = False
    bodies: Sequence[Part] = ()

    @property
    def is_detachable(self) -> bool:
        """Whether a step, or one of a body, is `detachable`."""
        return self.detachable or any(body.is_detachable for body in self.bodies)

    def max_workers(self, caps: Mapping[str, int]) -> list[int]:
        """Return the cap of each step (0: none) with a session's `caps` in force."""
        return [smallest_cap(effective_caps(own, caps).values()) for own in self.caps]


class Body:
    """A program that steps of other programs run: it is bound to memory of theirs."""

    def __init__(self, program: _native.Program, code: Code) -> None:
        """Make a body of a native program whose bound memory is its inputs, then its outputs."""
        self.program = program
        self._code = code
        PROGRAMS.register(self, program.id, code.labels)

    @property
    def is_detachable(self) -> bool:
        """Whether a step, or one of a body, is `detachable`."""
        return self._code.is_detachable

    @classmethod
    def of(cls, layout: Layout) -> Body:
        """Return the body of a layout."""
        return cls(*_program_of(layout, layout.buffers, [0] * len(layout.buffers)))

    def cap(self, caps: Mapping[str, int]) -> None:
        """Put a session's `caps` in force, as Executable.cap() does."""
        self.program.set_caps(self._code.max_workers(caps))
        for body in self._code.bodies:
            body.cap(caps)

    def trim(self) -> None:
        """Free the arenas that no run uses at the moment."""
        self.program.trim()
        for body in self._code.bodies:
            body.trim()


class Executable:
    """A compiled graph. Threads may run it at the same time: each run has its own arena."""

    instances: ClassVar[weakref.WeakSet[Executable]] = weakref.WeakSet()

    def __init__(self, program: _native.Program, outputs: Outputs, pool: OutputPool, code: Code) -> None:
        """Make an executable of a native program whose bound memory is the inputs, then the buffers of `outputs`.

        Whoever makes it registers the labels of the program's steps.
        """
        self.program = program
        """The native program."""
        self.outputs = outputs
        """What allocates the outputs of a run."""
        self._pool = pool
        self._code = code
        self._layout: Layout | None = None
        Executable.instances.add(self)

    @classmethod
    def of(cls, layout: Layout) -> Executable:
        """Return the executable of a layout."""
        pool = OutputPool(shared=False)
        shapes = [None if isinstance(spec, SizedSpec) else spec.shape for spec in layout.outputs]
        outputs = Outputs(OutputForm(layout.outputs), shapes, pool)
        program, code = _program_of(layout, *_bound(layout, outputs.locations))
        executable = cls(program, outputs, pool, code)
        executable._layout = layout
        PROGRAMS.register(executable, program.id, code.labels)
        return executable

    @property
    def isa(self) -> str:
        """The instruction set of its kernels; "" if there are none."""
        return self._code.isa

    @property
    def cost_ns(self) -> float:
        """The estimated time of all steps on one core."""
        return self.program.cost_ns

    @property
    def critical_path_ns(self) -> float:
        """The estimated time of the longest path of tasks that wait for each other."""
        return self.program.critical_path_ns

    @property
    def stages(self) -> list[StageLayout]:
        """The stages that its steps run, in the order of these."""
        return [step.body for step in self.layout.steps if isinstance(step.body, StageLayout)]

    @property
    def layout(self) -> Layout:
        """The parts that it was made of. Raises InternalError if it was bound by a template."""
        if self._layout is None:
            raise InternalError("an executable of a template has no layout")
        return self._layout

    @property
    def code(self) -> Code:
        """What it shares with other executables of its plan. It owns the memory that its steps use."""
        return self._code

    @property
    def arena_bytes(self) -> int:
        """Bytes of intermediate memory that one run uses."""
        return self.program.arena_bytes

    def cap(self, caps: Mapping[str, int]) -> None:
        """Put a session's `caps` in force at the next op; nodes that it does not name keep the model's caps."""
        self.program.set_caps(self._code.max_workers(caps))
        for body in self._code.bodies:
            body.cap(caps)

    def trim(self) -> None:
        """Free the arenas that no run uses at the moment, and output blocks that no array uses."""
        self.program.trim()
        for body in self._code.bodies:
            body.trim()
        self._pool.trim()

    @property
    def takes_addresses(self) -> bool:
        """True if run_at() may write outputs to addresses: none lies in a shared block."""
        return self.outputs.all_separate

    @property
    def given(self) -> Mapping[int, tuple[int, ...]]:
        """The shapes of the outputs whose memory the caller gives, by index."""
        return self.outputs.given

    def run(
        self,
        inputs: Sequence[Array],
        team: _native.Team,
        request: Request = DEFAULT,
        given: Sequence[Array] = (),
    ) -> list[Array]:
        """Run once and return an array for each output: a fresh one, or that of `given` for each in the order of
        `self.given`.

        `inputs` are contiguous arrays of the dtypes and shapes that the graph was compiled for. Raises KernelError or
        RunError naming the node that failed, RunTimeoutError or RunCancelledError as `request` says, MemoryLimitError
        if there is no memory for the run, ThreadLimitError if a blocking function gets no thread.
        """
        try:
            outputs, buffers = self.outputs.allocate(given)
        except MemoryError as error:
            raise self._memory_error(error) from None
        self.run_at([*inputs, *buffers], team, request, self._code)
        return self.outputs.found(outputs)

    def run_at(self, bound: list[Any], team: _native.Team, request: Request, keep: object) -> None:
        """Run once on the memory in `bound`: first that of the inputs, then that of the outputs.

        Each is an address, or an object that has a buffer; all are contiguous and not empty, of the dtypes and shapes
        that the graph was compiled for. `keep` is an object that the run keeps alive: it owns the memory behind
        addresses and the executable's code. Raises as run() does.
        """
        left = _NO_DEADLINE if request.deadline is None else request.seconds_left()
        may_end = request.deadline is not None or request.cancel is not None
        try:
            self.program.run(
                team,
                bound,
                request.intra_op,
                request.inter_op,
                request.priority,
                left,
                request.cancel,
                request.own,
                request.common,
                keep,
                request.nested,
                may_end and self._code.is_detachable,
            )
            if _native.any_file_was_cut():
                refuse_cut_images()
        except _native.KernelFailure as failure:
            label = PROGRAMS.label(failure.program, failure.step)
            kind, message = self._code.failures.get(failure.code, (KernelError, f"status {failure.code}"))
            raise kind(f"node {label.node!r} ({label.op}): {message}", node=label.node) from None
        except MemoryLimitError:
            raise
        except MemoryError as error:
            raise self._memory_error(error) from None
        except RunTimeoutError:
            raise request.timeout_error() from None
        except _native.RunTimeout:
            raise request.timeout_error() from None
        except _native.RunCancelled:
            raise request.cancelled_error() from None
        except _native.NoThread as failure:
            raise ThreadLimitError(
                f"{failure}; a blocking function needs a thread; nothing was returned, and the session may be used "
                "again"
            ) from None

    def _memory_error(self, error: MemoryError) -> MemoryLimitError:
        return MemoryLimitError(
            f"there is no memory for the run ({error}); it needs {self.arena_bytes} bytes for intermediate "
            "values, beside its results; nothing was returned, and the session may be used again"
        )


def is_detachable(step: object) -> bool:
    """Return whether a step, or what makes it for sizes, is detachable, as PythonStep says."""
    return bool(getattr(step, "detachable", False))


def _program_of(
    layout: Layout, buffers: Sequence[tuple[str, int]], offsets: Sequence[int]
) -> tuple[_native.Program, Code]:
    """Returns the native program of `layout`, with these `buffers`, in which contents begin at these byte `offsets`."""
    callables: list[int | PythonStep | _native.ControlStep] = []
    bodies: list[Part] = []
    for step in layout.steps:
        if isinstance(step.body, ControlLayout):
            own = [Body.of(body) for body in step.body.bodies]
            callables.append(step.body.form.step([body.program for body in own], step.args))
            bodies += own
        elif isinstance(step.body, StageLayout):
            callables.append(step.body.stage.step(step.body.args, step.body.counts))
            bodies.append(step.body.stage)
        else:
            callables.append(step.body)
    program = _native.Program(
        steps=[
            (body, _moved(step.pointers, offsets), step.args, step.chunks, step.cost)
            for body, step in zip(callables, layout.steps, strict=True)
        ],
        tasks=layout.tasks,
        successors=layout.successors,
        buffers=buffers,
        arena_bytes=layout.arena_bytes,
        scratch_bytes=layout.scratch_bytes,
        max_workers=[smallest_cap(step.caps.values()) for step in layout.steps],
        hand_over=layout.hand_over,
    )
    caps = [step.caps for step in layout.steps]
    detachable = any(is_detachable(body) for body in callables)
    return program, Code(tuple(layout.labels), caps, layout.failures, layout.isa, layout.kept, detachable, bodies)


def _bound(layout: Layout, locations: Sequence[tuple[int, int]]) -> tuple[list[tuple[str, int]], list[int]]:
    """Returns the buffers of `layout` with outputs replaced by the bound memory at `locations`, and the byte offset of
    each buffer's content in that memory."""
    inputs = 1 + max((value for kind, value in layout.buffers if kind == "bound"), default=-1) - len(locations)
    buffers, offsets = list(layout.buffers), [0] * len(layout.buffers)
    for number, (kind, value) in enumerate(buffers):
        if kind == "bound" and value >= inputs:
            block, offsets[number] = locations[value - inputs]
            buffers[number] = (kind, inputs + block)
    return buffers, offsets


def _moved(pointers: Sequence[tuple[int, int]], offsets: Sequence[int]) -> list[tuple[int, int]]:
    return [(buffer, at + offsets[buffer]) for buffer, at in pointers]


class SingleFunction:
    """A Python function as the only task of a run; it holds a slot unless it is `blocking`."""

    def __init__(self, label: StepLabel, *, blocking: bool = False) -> None:
        self._functions: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        layout = Layout(
            steps=[Step(partial(_call_numbered, self._functions), [(0, 0)], [], 1, FUNCTION_NS, {})],
            labels=[label],
            tasks=[(0, 1, 0.0, blocking)],
            successors=[[]],
            buffers=[("bound", 0)],
            arena_bytes=0,
            scratch_bytes=0,
            outputs=[],
            failures={},
            isa="",
            kept=None,
        )
        self._executable = Executable.of(layout)

    def run(self, function: Callable[[], None], team: _native.Team, request: Request) -> None:
        """Run `function`; threads may do so at the same time. Raises what it raises, and what Executable.run() does."""
        number = next(self._numbers)
        self._functions[number] = function
        try:
            self._executable.run([np.array(number, np.int64)], team, request)
        finally:
            del self._functions[number]


def _call_numbered(functions: Mapping[int, Callable[[], None]], addresses: tuple[int, ...]) -> None:
    """Call the function whose number, an int64, lies at the first address."""
    functions[ctypes.c_int64.from_address(addresses[0]).value]()
