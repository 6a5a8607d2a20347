"""What runs behind sizes that depend on data: programs that the native core binds to these sizes inside the run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from treadle import _native, forking
from treadle.errors import InternalError, LimitError, RunError, ShapeError
from treadle.graph.shape import StaticShape
from treadle.lru import LRU
from treadle.runtime.executable import Body
from treadle.runtime.outputs import OutputPool
from treadle.runtime.program_template import ProgramTemplate

MOST_BODIES = 64
"""How many programs with Python steps a stage keeps, as many as the native core does."""


class StageForm(NamedTuple):
    """What is known of a stage without the graph that it runs.

    Attributes:
        dtypes: Of its outputs.
        outputs: Their names.
        sizes: The names of its sizes, in their order.
        numbers: Those of them that are no dimensions but numbers of any sign.
    """

    dtypes: tuple[np.dtype[Any], ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    numbers: tuple[str, ...]


class LoopForm(NamedTuple):
    """How a step runs a loop in front of a stage. native/include/treadle/data_loop.h says what the fields are."""

    has_limit: bool
    has_condition: bool
    is_counted: bool
    rest_sizes: int
    body_sizes: int
    carried: tuple[tuple[bool, ...], ...]
    stacked: tuple[tuple[int, ...], ...]
    sliced: int
    captured: int
    appended: tuple[bool, ...]

    def put_ahead(self, stage: _native.DataStage, bodies: Sequence[DataStage]) -> None:
        """Have steps of `stage` run the loop over its body first."""
        stage.set_loop(bodies[0].native, *self)


class BranchForm(NamedTuple):
    """How a step runs a branch in front of a stage. native/include/treadle/data_branch.h says what the fields are."""

    rest_sizes: int
    results: tuple[tuple[int, ...], ...]
    captured: int

    def put_ahead(self, stage: _native.DataStage, bodies: Sequence[DataStage]) -> None:
        """Have steps of `stage` run one of the bodies first."""
        yes, no = bodies
        stage.set_branch(yes.native, no.native, *self)


AHEAD: dict[str, type[LoopForm | BranchForm]] = {"loop": LoopForm, "branch": BranchForm}
"""The forms by their names on disk. Their fields are JSON."""


class Ahead(NamedTuple):
    """A loop or branch in front of a stage: the stages that its bodies are, and how the step runs it."""

    bodies: tuple[DataStage, ...]
    form: LoopForm | BranchForm


class Compiler(Protocol):
    """Compiles what a stage runs."""

    def make(self, sizes: Sequence[int]) -> Template | tuple[Body, list[StaticShape | None]]:
        """Return a template that serves these sizes, or a program for them alone and the shapes of its outputs (None:
        another stage finds it)."""
        ...


class Template:
    """A template of a stage, whose symbol i is the size number `order[i]` of the stage."""

    def __init__(self, template: ProgramTemplate, order: Sequence[int]) -> None:
        self.template = template
        self.order = order


Made = tuple[_native.Program, list[StaticShape | None]]
"""A program and the shapes of its outputs that are known."""


def _call(method: weakref.WeakMethod[Callable[[list[int]], Made | None]], sizes: list[int]) -> Made | None:
    bound = method()
    return None if bound is None else bound(sizes)


class DataStage:
    """Binds what a compiler makes. Threads may share it.

    A run calls no Python where a template of kernels serves its sizes.
    """

    def __init__(self, form: StageForm, compiler: Compiler | None = None, ahead: Ahead | None = None) -> None:
        """Make a stage of this form; one from disk gets its compiler before it runs.

        `ahead` is the loop or branch in front of it, if there is one.
        """
        self.form = form
        self.bodies: tuple[DataStage, ...] = () if ahead is None else ahead.bodies
        """The stages that a loop or branch in front of this one runs."""
        self.ahead = ahead
        self.compiler = compiler
        """What compiles for sizes that it has no template for."""
        self._pool = OutputPool(shared=True)
        # A weak method: the native stage must not keep this one alive, which refers to it.
        miss = partial(_call, weakref.WeakMethod(self.miss))
        self._native = _native.DataStage([dtype.itemsize for dtype in form.dtypes], self._pool.native, miss)
        if ahead is not None:
            ahead.form.put_ahead(self._native, ahead.bodies)
        # Those that the native stage binds, in its order, with the numbers of the sizes that their symbols are.
        self._templates: dict[ProgramTemplate, Sequence[int]] = {}
        self._others: dict[ProgramTemplate, Sequence[int]] = {}
        self._bodies: LRU[tuple[int, ...], Body] = LRU(MOST_BODIES)
        self._lock = forking.lock()

    @property
    def native(self) -> _native.DataStage:
        """The native core's part of it, which does not keep this one alive."""
        return self._native

    def step(self, args: Sequence[int], counts: Sequence[int]) -> _native.ControlStep:
        """Return a step that runs it, as `executable.Stage` says."""
        return self._native.step(args, counts)

    def miss(self, sizes: list[int]) -> Made | None:
        """Compile for `sizes`, which the native stage has no template for; return a program if it still has none.

        Raises RunError if no tensors can have such sizes.
        """
        if self.compiler is None:
            raise InternalError("a stage from disk has no compiler")
        try:
            made = self.compiler.make(sizes)
        except (ShapeError, LimitError) as error:
            raise RunError(str(error), node=error.node) from error
        if isinstance(made, Template):
            template = made.template
            with self._lock:
                held = self._templates if template.is_native else self._others
                if template not in held:
                    held[template] = made.order
                    if template.is_native:
                        self._native.add(*template.source(made.order))
            if template.is_native:
                return None
            made = template.bind_sized([sizes[number] for number in made.order])
        body, shapes = made
        self._bodies.put(tuple(sizes), body)
        return body.program, shapes

    @property
    def is_detachable(self) -> bool:
        """Whether a step may be `detachable`: one of a program that it keeps is, or it has no template yet."""
        if not self._templates or self._others:
            return True
        own = any(body.is_detachable for body in self._bodies.values())
        return own or any(body.is_detachable for body in self.bodies)

    def cap(self, caps: Mapping[str, int]) -> None:
        """Put a session's `caps` in force, as Executable.cap() does."""
        with self._lock:
            for number, (template, order) in enumerate(self._templates.items()):
                template.note_caps(caps)
                if template.has_bodies:
                    self._native.replace(number, *template.source(order))
                else:
                    self._native.set_caps(number, template.max_workers)
            for template in self._others:
                template.note_caps(caps)
        for body in self._bodies.values():
            body.cap(caps)
        for stage in self.bodies:
            stage.cap(caps)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self._native.trim()
        with self._lock:
            templates = [*self._templates, *self._others]
        for template in templates:
            template.trim()
        for stage in self.bodies:
            stage.trim()
