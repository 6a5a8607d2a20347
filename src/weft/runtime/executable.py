"""Executables: a plan, its machine code, and the native program that runs them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import _native
from weft.errors import InternalError, KernelError, RunError, WeftError
from weft.plan.call import Call
from weft.plan.kernel_spec import KernelSpec
from weft.plan.plan import Home, Plan
from weft.plan.status import MESSAGES
from weft.tracing.registry import StepLabel, register

Array = np.ndarray[Any, Any]


class Executable:
    """A plan ready to run. Safe to run from many threads at once: each run has its own arena.

    `addresses` are those of the compiled kernels; `library` is whatever must live as long as they do.
    """

    def __init__(self, plan: Plan, addresses: Mapping[KernelSpec, int], library: object) -> None:
        self.plan = plan
        self._library = library
        self._constants = [np.ascontiguousarray(buffer.data) for buffer in plan.buffers if buffer.data is not None]
        constants = iter(self._constants)
        slots: list[tuple[str, int]] = []
        for buffer in plan.buffers:
            if buffer.home is Home.ARENA:
                slots.append(("arena", buffer.position))
            elif buffer.home is Home.CONSTANT:
                slots.append(("constant", next(constants).ctypes.data))
            else:
                first = 0 if buffer.home is Home.INPUT else len(plan.inputs)
                slots.append(("bound", first + buffer.position))
        successors: list[list[int]] = [[] for _ in plan.tasks]
        for number, task in enumerate(plan.tasks):
            for other in task.after:
                successors[other].append(number)
        self._program = _native.Program(
            steps=[self._step(call, addresses) for call in plan.calls],
            tasks=[(task.first, task.count, task.priority, task.blocking) for task in plan.tasks],
            successors=successors,
            slots=slots,
            arena_bytes=plan.arena_bytes,
            scratch_bytes=plan.scratch_bytes,
        )
        register(self, self._program.id, tuple(StepLabel(call.node, call.op) for call in plan.calls))

    def _step(
        self, call: Call, addresses: Mapping[KernelSpec, int]
    ) -> tuple[int | Callable[[tuple[int, ...]], None], list[tuple[int, int]], list[int], int, float]:
        places = [self.plan.places[value] for value in (*call.writes, *call.reads)]
        pointers = [
            (place.buffer, place.offset + call.offsets.get(number, 0)) for number, place in enumerate(places)
        ]
        body = addresses[call.spec] if call.spec is not None else python_step(call)
        return body, pointers, list(call.args), call.chunks, call.cost

    @property
    def arena_bytes(self) -> int:
        """Bytes of intermediate memory that one run uses."""
        return self.plan.arena_bytes

    def trim(self) -> None:
        """Free the arenas that no run uses at the moment."""
        self._program.trim()

    def run(
        self, inputs: Sequence[Array], team: _native.Team, *, intra_op: int = 0, inter_op: int = 0
    ) -> list[Array]:
        """Run once. `inputs` are contiguous arrays that match the plan's inputs in dtype and shape.

        0 for `intra_op` / `inter_op` means the team's limits. Returns fresh arrays, one an output. Raises
        KernelError or RunError naming the node that failed.
        """
        outputs = [np.empty(port.shape, port.dtype.numpy) for port in self.plan.outputs]
        bound = [array.ctypes.data for array in inputs]
        bound += [array.ctypes.data for array in outputs]
        try:
            self._program.run(team, bound, intra_op=intra_op, inter_op=inter_op)
        except _native.KernelFailure as failure:
            call = self.plan.calls[failure.step]
            reason = MESSAGES.get(failure.code, f"status {failure.code}")
            raise KernelError(f"node {call.node!r} ({call.op}): {reason}") from None
        return outputs


def python_step(call: Call) -> Callable[[tuple[int, ...]], None]:
    """`call.function` as a step of the native program: addresses in, results written in place."""
    function = call.function
    if function is None:
        raise InternalError(f"call of {call.node!r} has neither a kernel nor a function")
    writes = [(value.static_shape, value.known_dtype.numpy) for value in call.writes]
    reads = [(value.static_shape, value.known_dtype.numpy) for value in call.reads]

    def step(addresses: tuple[int, ...]) -> None:
        targets = [view(at, *form) for at, form in zip(addresses, writes, strict=False)]
        operands = [view(at, *form) for at, form in zip(addresses[len(writes) :], reads, strict=True)]
        try:
            results = function(operands)
        except WeftError:
            raise
        except Exception as error:
            raise RunError(f"node {call.node!r} ({call.op}) raised {type(error).__name__}: {error}") from error
        for target, result in zip(targets, results, strict=True):
            array = np.asarray(result)
            if array.shape != target.shape or array.dtype != target.dtype:
                raise RunError(
                    f"node {call.node!r} ({call.op}) returned {array.dtype}{list(array.shape)}; "
                    f"wanted {target.dtype}{list(target.shape)}"
                )
            target[...] = array

    return step


def view(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array over memory that the runtime owns; valid only while the step that got it runs."""
    size = int(np.prod(shape)) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)
