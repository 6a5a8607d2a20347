"""Programs of plans with open dimensions, which the native core binds to sizes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle import _native, forking
from treadle.errors import KernelError
from treadle.graph.node import smallest_cap
from treadle.lru import LRU
from treadle.runtime.control_form import ControlForm, TemplateBody
from treadle.runtime.executable import Body, Code, Executable, HandOver, Part, PythonStep, Stage, is_detachable
from treadle.runtime.outputs import OutputForm, OutputPool, Outputs, SizedSpec
from treadle.tracing.registry import PROGRAMS, StepLabel

MOST_BINDINGS = 64
"""How many bindings a template keeps."""

BEFORE_BINDING = frozenset({"overflow", "division", "range", "guard", "requested"})
"""The kinds of BindingFailure that sizes have before a program is bound to them."""


class ControlTemplate(NamedTuple):
    """A branch or loop as the body of a step whose arguments are the values of all symbols, then sizes of its own: the
    bodies that it runs, and how the step is made of their programs."""

    bodies: Sequence[ProgramTemplate]
    form: ControlForm


class StageTemplate(NamedTuple):
    """A stage as the body of a step whose arguments are the sizes that are known when it is bound.

    `counts` are how many sizes the step reads at each pointer to some.
    """

    stage: Stage
    counts: Sequence[int]


class StepTemplate(NamedTuple):
    """One call, by slots.

    `body` is the address of the kernel, a branch, loop or stage, or returns a Python function for the values of the
    arguments.
    `pointers` are (buffer, slot of the byte offset) pairs, `args` slots of the arguments. The slot `chunks` may hold 0:
    the step then does nothing. The slot `cost` holds a real: the estimated time of all chunks on one core, in ns.
    `caps` are as in Step.
    """

    body: int | Callable[[Sequence[int]], PythonStep] | ControlTemplate | StageTemplate
    pointers: Sequence[tuple[int, int]]
    args: Sequence[int]
    chunks: int
    cost: int
    caps: Mapping[str, int]


class OutputTemplate(NamedTuple):
    """Shape and NumPy dtype of an output, and whether the caller gives its memory. An int of `shape` is a slot."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_given: bool = False


class TemplateLayout(NamedTuple):
    """The parts of a template.

    A slot is a value of 64 bits that binding computes: slots are numbered from the symbols to the constants to the
    results of the operations. All slots hold integers but those of costs.

    Attributes:
        symbols: The number of symbols.
        constants: Bits of the constants, int64.
        operations: (operation, first operand) rows, int32, as `plan/binder.py` makes them.
        operands: Slots, int32.
        guards: Slots that must not hold 0.
        steps: The steps.
        labels: The label of each step.
        tasks: (first step, number of steps, blocking). Binding computes priorities.
        successors: The successors of each task.
        buffers: ("arena", slot of the size in bytes), ("constant", address) or ("bound", index): inputs come first,
            then one for each output.
        rivals: Pairs of buffers in the arena, by number, that must not overlap.
        scratch_bytes: A slot.
        outputs: The outputs, in their order.
        failures: As in Layout, like `isa`, `kept` and `hand_over`.
    """

    symbols: int
    constants: np.ndarray[Any, Any]
    operations: np.ndarray[Any, Any]
    operands: np.ndarray[Any, Any]
    guards: Sequence[int]
    steps: Sequence[StepTemplate]
    labels: Sequence[StepLabel]
    tasks: Sequence[tuple[int, int, bool]]
    successors: Sequence[Sequence[int]]
    buffers: Sequence[tuple[str, int]]
    rivals: Sequence[tuple[int, int]]
    scratch_bytes: int
    outputs: Sequence[OutputTemplate | SizedSpec]
    failures: Mapping[int, tuple[type[KernelError], str]]
    isa: str
    kept: object
    hand_over: HandOver = HandOver()


class ProgramTemplate:
    """A compiled graph with open dimensions. Threads may bind it at the same time."""

    def __init__(self, layout: TemplateLayout) -> None:
        """Check the layout. Raises ValueError that names a faulty entry, what is allowed, and its value."""
        self._layout = layout
        steps = layout.steps
        caps = [step.caps for step in steps]
        detachable = any(is_detachable(step.body) for step in steps)
        self._code = Code(tuple(layout.labels), caps, layout.failures, layout.isa, layout.kept, detachable)
        self._native = _native.ProgramTemplate(
            symbols=layout.symbols,
            constants=layout.constants,
            operations=layout.operations,
            operands=layout.operands,
            steps=[
                (step.body if isinstance(step.body, int) else None, step.pointers, step.args, step.chunks, step.cost)
                for step in steps
            ],
            tasks=layout.tasks,
            successors=layout.successors,
            buffers=layout.buffers,
            rivals=layout.rivals,
            scratch_bytes=layout.scratch_bytes,
            guards=layout.guards,
            requested=[
                slot for output in layout.outputs if isinstance(output, OutputTemplate) for slot in output.shape
            ],
            max_workers=[smallest_cap(own.values()) for own in caps],
            hand_over=layout.hand_over,
        )
        PROGRAMS.register(self, self._native.program_id, self._code.labels)
        self._form = OutputForm(layout.outputs)
        self.output_pool = OutputPool(shared=True)
        """The memory of the outputs of all bindings."""
        self._bindings: LRU[tuple[int, ...], Executable] = LRU(MOST_BINDINGS)
        self._lock = forking.lock()
        self._live: weakref.WeakSet[Executable] = weakref.WeakSet()  # guarded by _lock, like _max_workers
        self._max_workers: list[int] = []  # of each step, with a session's caps; empty: those of the model
        self._made_bodies = [(number, step.body) for number, step in enumerate(steps) if not isinstance(step.body, int)]
        """The bodies that each binding makes, with the numbers of their steps."""
        branches = (body for _, body in self._made_bodies if isinstance(body, ControlTemplate))
        self._bodies = [body for branch in branches for body in branch.bodies]
        self.stages = [step.body for step in layout.steps if isinstance(step.body, StageTemplate)]
        """The stages that its steps run, in the order of these."""

    @property
    def layout(self) -> TemplateLayout:
        """The parts that it was made of."""
        return self._layout

    @property
    def arena_allocations(self) -> int:
        """How many arenas the runs of its bindings have allocated so far."""
        return self._native.arena_allocations

    def bind(self, symbols: tuple[int, ...]) -> Executable:
        """Return the executable for the symbols' values, which may be one that was bound before.

        Raises _native.BindingFailure if the template does not serve these sizes, ValueError for a wrong number of
        symbols.
        """
        executable = self._bindings.get(symbols)
        if executable is None:
            with self._lock:
                executable = self._bindings.get(symbols)
                if executable is None:
                    executable = self._bound(symbols)
                    self._bindings.put(symbols, executable)
        return executable

    def try_bind(self, symbols: Sequence[int]) -> Executable | None:
        """Return what bind() does; None if the template does not serve these sizes."""
        try:
            return self.bind(tuple(symbols))
        except _native.BindingFailure:
            return None

    def _bound(self, symbols: tuple[int, ...]) -> Executable:
        sizes = self._native.evaluate(symbols)
        outputs = Outputs(self._form, self._native.requested(sizes, self._form.ranks), self.output_pool)
        program, code = self._program(sizes, outputs.bound, shares_id=True)
        executable = Executable(program, outputs, self.output_pool, code)
        self._live.add(executable)
        return executable

    def _program(
        self, sizes: _native.Sizes, locations: Sequence[tuple[int, int]], *, shares_id: bool
    ) -> tuple[_native.Program, Code]:
        functions: list[PythonStep | _native.ControlStep] = []
        bodies: list[Part] = []
        for number, body in self._made_bodies:
            args = self._native.args(sizes, number)
            if isinstance(body, ControlTemplate):
                symbols, own_sizes = args[: self._layout.symbols], args[self._layout.symbols :]
                own = [each.bind_body(symbols) for each in body.bodies]
                functions.append(body.form.step([each.program for each in own], own_sizes))
                bodies += own
            elif isinstance(body, StageTemplate):
                functions.append(body.stage.step(args, body.counts))
                bodies.append(body.stage)
            else:
                functions.append(body(args))
        program = self._native.bind(sizes, locations, self._max_workers, functions, shares_id)
        return program, self._code._replace(bodies=bodies) if bodies else self._code

    def moving(self, names: Sequence[str]) -> MovingPlan | None:
        """Return a plan for one user, with these `names` of symbols; None if steps have bodies."""
        return None if self._made_bodies else MovingPlan(self, names)

    def bind_body(self, symbols: Sequence[int]) -> Body:
        """Return the program for the symbols' values as one that steps of other programs run. Raises as bind() does."""
        return self._body(self._native.evaluate(symbols))

    def bind_next(self, rebinding: _native.Rebinding, symbols: Sequence[int]) -> Executable:
        """Return an executable of its own for the symbols' values, which rebind() takes. Raises as bind() does."""
        shapes = self._native.evaluate_next(rebinding, symbols, self._form.ranks)
        return self._bound_next(rebinding, shapes)

    def rebind(self, rebinding: _native.Rebinding, symbols: Sequence[int], executable: Executable) -> Executable:
        """Return what bind_next() does: `executable`, which it has returned for `rebinding`, unless a run uses it.

        Raises as bind() does; `rebinding` and `executable` must then not be used, except where the kind of the failure
        is one of `BEFORE_BINDING`: both serve what they did before.
        """
        program, outputs = executable.program, executable.outputs
        with self._lock:  # of cap(), too
            shapes, bound = self._native.rebind(
                rebinding, symbols, program, outputs.bound, self._max_workers, self._form.ranks
            )
        if bound is program and outputs.resize(shapes):
            return executable
        return self._bound_next(rebinding, shapes, executable)

    def _bound_next(
        self,
        rebinding: _native.Rebinding,
        shapes: Sequence[tuple[int, ...] | None],
        executable: Executable | None = None,
    ) -> Executable:
        """Return `executable`, or a new one, bound to what `rebinding` holds, with outputs of these shapes."""
        outputs = Outputs(self._form, shapes, self.output_pool)
        with self._lock:  # of cap(), too
            old = None if executable is None else executable.program
            program = self._native.bind_next(rebinding, old, outputs.bound, self._max_workers)
            if executable is None or program is not old:
                executable = Executable(program, outputs, self.output_pool, self._code)
                self._live.add(executable)
        executable.outputs = outputs
        return executable

    @property
    def is_native(self) -> bool:
        """Whether no step, and none of a body, is a Python function."""
        return all(isinstance(step.body, int | StageTemplate | ControlTemplate) for step in self._layout.steps) and all(
            body.is_native for body in self._bodies
        )

    @property
    def has_bodies(self) -> bool:
        """Whether a step is a branch or loop."""
        return bool(self._bodies)

    @property
    def max_workers(self) -> list[int]:
        """The cap of each step in bindings that are made from now on; empty: the model's caps."""
        return self._max_workers

    def source(self, order: Sequence[int]) -> tuple[Any, ...]:
        """Return what a native stage takes to bind it; `order` are the numbers of the sizes that its symbols are.

        It must be native.
        """
        native, max_workers, makers = self.body()
        return native, order, self._form.ranks, max_workers, makers

    def body(self) -> TemplateBody:
        """Return what the native core takes to bind it: itself, caps, and what makes the steps that are no kernels."""
        makers = []
        for _, body in self._made_bodies:
            if isinstance(body, StageTemplate):
                makers.append(_native.StepMaker.stage(body.stage.native, body.counts))
            elif isinstance(body, ControlTemplate):
                makers.append(body.form.maker(self._layout.symbols, [each.body() for each in body.bodies]))
        return self._native, self._max_workers, makers

    def bind_sized(self, symbols: Sequence[int]) -> tuple[Body, list[tuple[int, ...] | None]]:
        """Return what bind_body() does, and the shapes of its outputs (None: a run finds it). Raises as bind() does."""
        sizes = self._native.evaluate(symbols)
        return self._body(sizes), self._native.requested(sizes, self._form.ranks)

    def _body(self, sizes: _native.Sizes) -> Body:
        return Body(*self._program(sizes, [], shares_id=False))

    def cap(self, caps: Mapping[str, int]) -> None:
        """Put a session's `caps` in force in all bindings, as Executable.cap() does."""
        with self._lock:
            self.note_caps(caps)
            for executable in list(self._live):
                executable.cap(caps)

    def note_caps(self, caps: Mapping[str, int]) -> None:
        """Put a session's `caps` in force in bindings that are made from now on."""
        self._max_workers = self._code.max_workers(caps)
        for template in self._bodies:
            template.note_caps(caps)
        for body in self.stages:
            body.stage.cap(caps)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment. Bindings are kept."""
        with self._lock:
            live = list(self._live)
        for executable in live:
            executable.trim()
        self._native.trim()  # the native core keeps bindings of its own, which share these arenas
        for template in self._bodies:
            template.trim()
        for body in self.stages:
            body.stage.trim()


class MovingPlan:
    """A template for one user, who binds it to one combination of sizes after another.

    That takes less time than bind() does: only what depends on sizes that differ is computed, and the program stays.
    """

    def __init__(self, template: ProgramTemplate, names: Sequence[str]) -> None:
        """Make one without sizes; ProgramTemplate.moving() does. `names` are those of the symbols."""
        self._template = template
        self._names = names
        self._rebinding = _native.Rebinding()
        self.symbols: tuple[int, ...] = ()
        """The values of the symbols that it is bound to, if it is."""
        self.executable: Executable | None = None
        """The executable for these; None if it is bound to none."""

    def bind(self, sizes: Mapping[str, int]) -> Executable | None:
        """Return the executable for the symbols' `sizes` by name, which serves no others any more; None if the template
        does not serve these."""
        symbols = tuple([sizes[name] for name in self._names])
        executable, template = self.executable, self._template
        if executable is not None and symbols == self.symbols:
            return executable
        before, self.executable = executable, None
        try:
            if executable is None:
                executable = template.bind_next(self._rebinding, symbols)
            else:
                executable = template.rebind(self._rebinding, symbols, executable)
        except _native.BindingFailure as failure:
            if failure.kind in BEFORE_BINDING:
                self.executable = before
            else:
                self._rebinding = _native.Rebinding()
            return None
        self.executable, self.symbols = executable, symbols
        return executable
