"""Builds the Executable of a plan: compiles kernels, maps buffers to pointers, wraps Python functions as steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from treadle.codegen.artifact_record import Resources
from treadle.codegen.build import build_kernels
from treadle.errors import InternalError
from treadle.plan.call import Call
from treadle.plan.control_flow import Loop, Rest
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.plan import Home, Plan, with_bodies
from treadle.plan.status import FAILURES
from treadle.plan.target import Target
from treadle.runtime import libraries
from treadle.runtime.control_form import BranchForm, ControlForm, LoopForm
from treadle.runtime.executable import ControlLayout, Executable, HandOver, Layout, PythonStep, StageLayout, Step
from treadle.runtime.outputs import ArraySpec, SizedSpec
from treadle.runtime.python_calls import Caller
from treadle.runtime.python_step import PythonCall
from treadle.tracing.registry import StepLabel


def assemble(plan: Plan, progress: Callable[[int, int], None] | None = None) -> Executable:
    """Compiles the kernels of `plan`, or loads them from the cache, and returns the plan as an executable.

    `progress(done, total)` is called while kernels are compiled.
    """
    return Executable.of(_layout(plan, Resources(build_kernels(specs_of(plan), plan.target, progress), [])))


def specs_of(plan: Plan) -> list[KernelSpec]:
    """Returns the kernels to build for `plan` and for the bodies in it."""
    return [
        call.spec
        for each in with_bodies(plan)
        for call in each.calls
        if call.spec is not None and not isinstance(call.spec, LibraryGemmSpec)
    ]


def _layout(plan: Plan, resources: Resources) -> Layout:
    """Returns the layout of `plan`, whose constants are added to `resources`."""
    buffers = buffers_of(plan, resources)
    return Layout(
        steps=[_step(plan, call, resources) for call in plan.calls],
        labels=[StepLabel(call.node, call.op) for call in plan.calls],
        tasks=[(task.first, task.count, task.priority, task.blocking) for task in plan.tasks],
        successors=successors_of(plan),
        buffers=buffers,
        arena_bytes=plan.arena_bytes,
        scratch_bytes=plan.scratch_bytes,
        outputs=[
            SizedSpec(port.dtype.numpy) if port.sized_in_run else ArraySpec(port.shape, port.dtype.numpy, port.is_given)
            for port in plan.outputs
        ],
        failures=FAILURES,
        isa=plan.target.isa,
        kept=resources,
        hand_over=hand_over_of(plan.target),
    )


def hand_over_of(target: Target) -> HandOver:
    """Returns what handing work to another thread takes on `target`."""
    return HandOver(*(getattr(target.machine, figure) for figure in HandOver._fields))


def successors_of(plan: Plan) -> list[list[int]]:
    """Returns for each task those that wait for it."""
    successors: list[list[int]] = [[] for _ in plan.tasks]
    for number, task in enumerate(plan.tasks):
        for other in task.after:
            successors[other].append(number)
    return successors


def buffers_of(plan: Plan, resources: Resources) -> list[tuple[str, int]]:
    """Returns the plan's buffers in the native core's form; `resources` keep the arrays that hold its constants."""
    buffers: list[tuple[str, int]] = []
    for buffer in plan.buffers:
        if buffer.data is not None:
            array = np.ascontiguousarray(buffer.data)
            resources.arrays.append(array)
            buffers.append(("constant", array.ctypes.data))
        elif buffer.home is Home.ARENA:
            buffers.append(("arena", buffer.position))
        else:
            first = 0 if buffer.home is Home.INPUT else len(plan.inputs)
            buffers.append(("bound", first + buffer.position))
    return buffers


def _step(plan: Plan, call: Call, resources: Resources) -> Step:
    places = [plan.places[value] for value in (*call.writes, *call.reads)]
    pointers = [(place.buffer, place.offset + call.offsets.get(number, 0)) for number, place in enumerate(places)]
    body: int | PythonStep | ControlLayout | StageLayout
    args = list(call.packed_args)
    if isinstance(call.control, Rest):
        body = StageLayout(call.control.stage, call.sizes, call.control.counts)
    elif call.control is not None:
        body = ControlLayout([_layout(each, resources) for each in call.plans], control_form(call))
        args = list(call.sizes)
    elif call.spec is None:
        body = python_call(call)([*sizes_of(call)])
    elif isinstance(call.spec, LibraryGemmSpec):
        body, library = libraries.kernel(call.spec.provider, call.spec.dtype)
        args = [library, *args]
    else:
        body = resources.kernels.addresses[call.spec]
    return Step(body, pointers, args, call.chunks, call.cost, call.caps)


def control_form(call: Call) -> ControlForm:
    """Returns how the step of the branch or loop `call` is made of the programs of its plans and of its sizes."""
    if isinstance(call.control, Loop):
        loop = call.control
        flags = loop.has_limit, loop.has_condition, loop.decides
        return LoopForm(loop.carried, loop.stacked, len(call.reads), *flags, loop.sliced)
    condition = len(call.writes)
    return BranchForm(condition, [*range(condition + 1, condition + len(call.reads)), *range(condition)])


def sizes_of(call: Call) -> Iterator[int]:
    """Yields the sizes that a step of `call.function` depends on: those that it takes, then those of the shapes."""
    yield from call.sizes
    for value in (*call.writes, *call.reads):
        yield from value.static_shape


def python_call(call: Call) -> PythonCall:
    """Returns `call.function` as a step, up to the numbers for what `sizes_of` yields."""
    if call.function is None:
        raise InternalError(f"call of {call.node!r} has neither a kernel nor a function")
    writes, reads = (
        tuple((len(value.static_shape), value.known_dtype.numpy) for value in values)
        for values in (call.writes, call.reads)
    )
    caller = Caller(call.node, call.op, call.blocking)
    return PythonCall(caller, len(call.sizes), writes, reads, call.function)
