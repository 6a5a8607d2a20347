"""Builds the Executable of a plan: compiles kernels, maps buffers to pointers, wraps Python functions as steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from treadle.codegen.artifact import Resources
from treadle.codegen.build import KernelSet, build_kernels
from treadle.errors import InternalError
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.plan import Home, Plan
from treadle.plan.status import FAILURES
from treadle.runtime import libraries
from treadle.runtime.executable import Body, ControlStep, Executable, Layout, PythonStep, Step, branch_step
from treadle.runtime.outputs import ArraySpec
from treadle.runtime.python_calls import Caller
from treadle.runtime.python_step import PythonCall
from treadle.tracing.registry import StepLabel

Array = np.ndarray[Any, Any]


def assemble(plan: Plan, progress: Callable[[int, int], None] | None = None) -> Executable:
    """Compiles the kernels of `plan`, or loads them from the cache, and returns the plan as an executable.

    `progress(done, total)` is called while kernels are compiled.
    """
    return Executable.of(_layout(plan, build_kernels(specs_of(plan), plan.target, progress)))


def specs_of(plan: Plan) -> list[KernelSpec]:
    """Returns the kernels to build for `plan` and for the bodies in it."""
    specs: list[KernelSpec] = []
    for call in plan.calls:
        if call.spec is not None and not isinstance(call.spec, LibraryGemmSpec):
            specs.append(call.spec)
        for body in call.plans:
            specs += specs_of(body)
    return specs


def _layout(plan: Plan, kernels: KernelSet) -> Layout:
    buffers, constants = buffers_of(plan)
    bodies = [[Body.of(_layout(body, kernels)) for body in call.plans] for call in plan.calls]
    return Layout(
        steps=[_step(plan, call, kernels.addresses, own) for call, own in zip(plan.calls, bodies, strict=True)],
        labels=[StepLabel(call.node, call.op) for call in plan.calls],
        tasks=[(task.first, task.count, task.priority, task.blocking) for task in plan.tasks],
        successors=successors_of(plan),
        buffers=buffers,
        arena_bytes=plan.arena_bytes,
        scratch_bytes=plan.scratch_bytes,
        outputs=[ArraySpec(port.shape, port.dtype.numpy) for port in plan.outputs],
        failures=FAILURES,
        isa=plan.target.isa,
        kept=Resources(kernels, constants),
        bodies=list(chain.from_iterable(bodies)),
    )


def successors_of(plan: Plan) -> list[list[int]]:
    """Returns for each task those that wait for it."""
    successors: list[list[int]] = [[] for _ in plan.tasks]
    for number, task in enumerate(plan.tasks):
        for other in task.after:
            successors[other].append(number)
    return successors


def buffers_of(plan: Plan) -> tuple[list[tuple[str, int]], list[Array]]:
    """Returns the plan's buffers in the native core's form, and the arrays that hold the constants."""
    buffers: list[tuple[str, int]] = []
    constants: list[Array] = []
    for buffer in plan.buffers:
        if buffer.data is not None:
            constants.append(np.ascontiguousarray(buffer.data))
            buffers.append(("constant", constants[-1].ctypes.data))
        elif buffer.home is Home.ARENA:
            buffers.append(("arena", buffer.position))
        else:
            first = 0 if buffer.home is Home.INPUT else len(plan.inputs)
            buffers.append(("bound", first + buffer.position))
    return buffers, constants


def _step(plan: Plan, call: Call, addresses: Mapping[KernelSpec, int], bodies: Sequence[Body]) -> Step:
    places = [plan.places[value] for value in (*call.writes, *call.reads)]
    pointers = [(place.buffer, place.offset + call.offsets.get(number, 0)) for number, place in enumerate(places)]
    body: int | PythonStep | ControlStep
    args = list(call.packed_args)
    if call.control is not None:
        body = control_step(call, bodies)
    elif call.spec is None:
        body = python_call(call)([*sizes_of(call)])
    elif isinstance(call.spec, LibraryGemmSpec):
        body, library = libraries.kernel(call.spec.provider, call.spec.dtype)
        args = [library, *args]
    else:
        body = addresses[call.spec]
    return Step(body, pointers, args, call.chunks, call.cost, call.caps)


def control_step(call: Call, bodies: Sequence[Body]) -> ControlStep:
    """Returns the branch `call` as a step that runs the `bodies` made of its plans."""
    condition = len(call.writes)
    yes, no = bodies
    return branch_step(condition, [*range(condition + 1, condition + len(call.reads)), *range(condition)], yes, no)


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
