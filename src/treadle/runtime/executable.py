"""Executables: machine code and the task graph that the native core runs."""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from treadle import _native
from treadle.errors import KernelError, MemoryLimitError, RunTimeoutError, ThreadLimitError
from treadle.graph.node import smallest_cap
from treadle.runtime.caps import in_force
from treadle.runtime.control import PLAIN, Request
from treadle.runtime.outputs import Outputs
from treadle.tracing.registry import PROGRAMS, StepLabel

Array = np.ndarray[Any, Any]
PythonStep = Callable[[tuple[int, ...]], None]
"""Called with the addresses of a step's buffers, outputs first."""

_ENDLESS = math.nan
"""Seconds to the end of a run that has none."""

ALONE_NS = 100_000.0
"""What a Python function on its own is taken to cost: there is nothing that it could be weighed against."""


class Step(NamedTuple):
    """One call: the address of a kernel or a Python function, and what it is given.

    `pointers` are (buffer, byte offset) pairs, `cost` is the estimated time of all `chunks` on one core in ns,
    `caps` are those on the workers that share it, by the nodes of the model whose work it does (0: none).
    """

    body: int | PythonStep
    pointers: list[tuple[int, int]]
    args: list[int]
    chunks: int
    cost: float
    caps: Mapping[str, int]


class Form(NamedTuple):
    """Shape and NumPy dtype of an input or output."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Layout(NamedTuple):
    """Everything that is fixed when a plan has become machine code.

    `tasks` are (first step, number of steps, priority, blocking), `successors` those of each task, `buffers` what
    pointers count from, as the native core takes them. `reasons` says what the status codes of kernels mean. `isa` names the
    instruction set of the kernels ("" without kernels). `kept` is whatever must live as long as the code: compiled kernels and the arrays of
    constants.
    """

    steps: Sequence[Step]
    labels: Sequence[StepLabel]
    tasks: Sequence[tuple[int, int, float, bool]]
    successors: Sequence[Sequence[int]]
    buffers: Sequence[tuple[str, int]]
    arena_bytes: int
    scratch_bytes: int
    outputs: Sequence[Form]
    reasons: Mapping[int, str]
    isa: str
    kept: object


class Executable:
    """A compiled graph. Safe to run from many threads at once: each run has an arena of its own."""

    everyone: ClassVar[weakref.WeakSet[Executable]] = weakref.WeakSet()

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._outputs = Outputs(layout.outputs)
        buffers, offsets = _bound(layout, self._outputs.places)
        self._program = _native.Program(
            steps=[
                (step.body, _moved(step.pointers, offsets), step.args, step.chunks, step.cost) for step in layout.steps
            ],
            tasks=layout.tasks,
            successors=layout.successors,
            buffers=buffers,
            arena_bytes=layout.arena_bytes,
            scratch_bytes=layout.scratch_bytes,
            max_workers=[smallest_cap(step.caps.values()) for step in layout.steps],
        )
        PROGRAMS.register(self, self._program.id, tuple(layout.labels))
        Executable.everyone.add(self)

    @property
    def isa(self) -> str:
        """The instruction set of its kernels."""
        return self._layout.isa

    @property
    def layout(self) -> Layout:
        """What it was made of."""
        return self._layout

    @property
    def arena_bytes(self) -> int:
        """Bytes of intermediate memory that one run uses."""
        return self._layout.arena_bytes

    def cap(self, asked: Mapping[str, int]) -> None:
        """Cap the nodes of `asked` as `caps.in_force` has it, the others as the model does; from the next op on."""
        self._program.set_caps([smallest_cap(in_force(step.caps, asked).values()) for step in self._layout.steps])

    def trim(self) -> None:
        """Free the arenas that no run uses at the moment, and the memory of outputs that no array uses."""
        self._program.trim()
        self._outputs.trim()

    @property
    def takes_addresses(self) -> bool:
        """Whether run_at() may be called: no output is lent memory."""
        return self._outputs.all_fresh

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = PLAIN) -> list[Array]:
        """Run once. `inputs` are contiguous arrays of the dtypes and shapes that the graph was compiled for.

        Returns fresh arrays, one an output. Raises KernelError or RunError naming the node that failed,
        RunTimeoutError and RunCancelledError as `request` has it, MemoryLimitError where there is no memory for the run,
        ThreadLimitError where a blocking function gets no thread.
        """
        try:
            outputs, buffers = self._outputs.make()
        except MemoryError as error:
            raise self._without_memory(error) from None
        self.run_at([*inputs, *buffers], team, request, self._layout)
        return outputs

    def run_at(self, bound: list[Any], team: _native.Team, request: Request, keep: object) -> None:
        """Run once, from the memory of inputs into that of outputs behind them: addresses, or what lends its buffer.

        All are contiguous, of the dtypes and shapes that the graph was compiled for, and have elements. `keep` is what must
        live as long as their memory is used, and what the executable was made of. Raises what run() does.
        """
        left = _ENDLESS if request.deadline is None else request.left()
        try:
            self._program.run(
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
                request.part,
            )
        except _native.KernelFailure as failure:
            label = self._layout.labels[failure.step]
            reason = self._layout.reasons.get(failure.code, f"status {failure.code}")
            raise KernelError(f"node {label.node!r} ({label.op}): {reason}") from None
        except MemoryLimitError:
            raise
        except MemoryError as error:
            raise self._without_memory(error) from None
        except RunTimeoutError:
            raise request.ran_out() from None
        except _native.RunTimeout:
            raise request.ran_out() from None
        except _native.RunCancelled:
            raise request.was_cancelled() from None
        except _native.NoThread as failure:
            raise ThreadLimitError(
                f"{failure}; a blocking function needs a thread; nothing was returned, and the session may be used again"
            ) from None

    def _without_memory(self, error: MemoryError) -> MemoryLimitError:
        return MemoryLimitError(
            f"there is no memory for the run ({error}); it needs {self._layout.arena_bytes} bytes for intermediate "
            "values, beside its results; nothing was returned, and the session may be used again"
        )


def _bound(layout: Layout, locations: Sequence[tuple[int, int]]) -> tuple[list[tuple[str, int]], list[int]]:
    """Returns the buffers of `layout` with outputs replaced by the bound memory at `locations`, and the byte offset of each
    buffer's content in that memory."""
    inputs = 1 + max((value for kind, value in layout.buffers if kind == "bound"), default=-1) - len(locations)
    buffers, offsets = list(layout.buffers), [0] * len(layout.buffers)
    for number, (kind, value) in enumerate(buffers):
        if kind == "bound" and value >= inputs:
            block, offsets[number] = locations[value - inputs]
            buffers[number] = (kind, inputs + block)
    return buffers, offsets


def _moved(pointers: Sequence[tuple[int, int]], offsets: Sequence[int]) -> list[tuple[int, int]]:
    return [(buffer, at + offsets[buffer]) for buffer, at in pointers]


class Alone:
    """A Python function as the only task of a run: on a slot like any other, or, if `blocking`, on none."""

    def __init__(self, label: StepLabel, *, blocking: bool = False) -> None:
        self._functions: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        layout = Layout(
            steps=[Step(partial(_called, self._functions), [(0, 0)], [], 1, ALONE_NS, {})],
            labels=[label],
            tasks=[(0, 1, 0.0, blocking)],
            successors=[[]],
            buffers=[("bound", 0)],
            arena_bytes=0,
            scratch_bytes=0,
            outputs=[],
            reasons={},
            isa="",
            kept=None,
        )
        self._executable = Executable(layout)

    def run(self, function: Callable[[], None], team: _native.Team, request: Request) -> None:
        """Run `function`. Safe from many threads at once. Raises what it raises, and what Executable.run() does."""
        number = next(self._numbers)
        self._functions[number] = function
        try:
            self._executable.run([np.array(number, np.int64)], team, request)
        finally:
            del self._functions[number]


def _called(functions: Mapping[int, Callable[[], None]], addresses: tuple[int, ...]) -> None:
    """Call the function whose number lies at the first address."""
    functions[ctypes.c_int64.from_address(addresses[0]).value]()
