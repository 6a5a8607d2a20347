"""Templates of programs made by hand, with kernels that are functions of Python."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from treadle.errors import KernelError
from treadle.graph.dim import ceil_div
from treadle.graph.facts import Facts
from treadle.plan.binder import Encoder
from treadle.runtime.program_template import OutputTemplate, ProgramTemplate, StepTemplate, TemplateLayout
from treadle.tracing.registry import StepLabel

Kernel = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.c_void_p
)


def floats(address: int, count: int) -> Any:
    return (ctypes.c_float * count).from_address(address)


@Kernel
def scale(pointers, args, chunk, _scratch):
    """Multiplies the elements of a chunk by a number. Arguments: elements, elements of a chunk, factor."""
    elements, each, factor = args[0], args[1], args[2]
    source, target = floats(pointers[1], elements), floats(pointers[0], elements)
    for i in range(chunk * each, min(elements, (chunk + 1) * each)):
        target[i] = factor * source[i]
    return 0


@Kernel
def fail(_pointers, _args, _chunk, _scratch):
    return 3


def address_of(kernel: Any) -> int:
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    assert address is not None
    return address


class Factory:
    """Makes the Python function of a step, and keeps the sizes that it was asked for."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.sizes: list[tuple[int, ...]] = []

    def __call__(self, sizes: Any) -> Any:
        self.sizes.append(tuple(sizes))
        return self.make(*sizes)


class Builder:
    """A template whose sizes are expressions."""

    def __init__(self, *symbols: int) -> None:
        self.facts = Facts()
        self.symbols = [self.facts.symbol(f"s{number}", hint, least=0) for number, hint in enumerate(symbols)]
        self.encoder = Encoder(self.symbols)  # type: ignore[arg-type]
        self.steps: list[tuple[Any, list[tuple[int, int]], list[int], int, float, dict[str, int]]] = []
        self.after: list[tuple[int, ...]] = []
        self.buffers: list[tuple[str, int]] = []
        self.rivals: list[tuple[int, int]] = []
        self.outputs: list[tuple[tuple[int, ...], Any]] = []

    def add(self, kernel, pointers, args, chunks, *, cost=1000.0, after=(), caps=None):
        self.steps.append((kernel, pointers, args, chunks, cost, caps or {}))
        self.after.append(after)

    def build(self) -> ProgramTemplate:
        return ProgramTemplate(self.layout())

    def layout(self) -> TemplateLayout:
        integer, real = self.encoder.integer, self.encoder.real
        steps = [
            ([(b, integer(at)) for b, at in pointers], [integer(arg) for arg in args], integer(chunks), real(cost))
            for _, pointers, args, chunks, cost, _ in self.steps
        ]
        sizes = [integer(size) if kind == "arena" else None for kind, size in self.buffers]
        shapes = [[integer(size) for size in shape] for shape, _ in self.outputs]
        guards = [self.encoder.guard(guard) for guard in self.facts.guards]
        scratch = integer(0)
        operations = self.encoder.finish()
        number = self.encoder.number_of
        successors: list[list[int]] = [[] for _ in self.steps]
        for task, before in enumerate(self.after):
            for other in before:
                successors[other].append(task)
        return TemplateLayout(
            symbols=operations.symbols,
            constants=operations.constants,
            operations=operations.operations,
            operands=operations.operands,
            guards=[number(slot) for slot in guards],
            steps=[
                StepTemplate(
                    step[0] if isinstance(step[0], Factory) else address_of(step[0]),
                    [(b, number(at)) for b, at in pointers],
                    [number(arg) for arg in args],
                    number(chunks),
                    number(cost),
                    step[5],
                )
                for step, (pointers, args, chunks, cost) in zip(self.steps, steps, strict=True)
            ],
            labels=[StepLabel(f"node{i}", "test") for i in range(len(steps))],
            tasks=[(i, 1, False) for i in range(len(steps))],
            successors=successors,
            buffers=[
                (kind, value if slot is None else number(slot))
                for (kind, value), slot in zip(self.buffers, sizes, strict=True)
            ],
            rivals=self.rivals,
            scratch_bytes=number(scratch),
            outputs=[
                OutputTemplate(tuple(map(number, slots)), np.dtype(dtype))
                for slots, (_, dtype) in zip(shapes, self.outputs, strict=True)
            ],
            failures={3: (KernelError, "it always fails")},
            isa="test",
            kept=None,
        )


def chain(*, outputs: int = 1, width: int = 1) -> Builder:
    """x (s0, width) -> times 2 in the arena -> times 3, 4, ... in each output."""
    b = Builder(8)
    (rows,) = b.symbols
    elements = rows * width
    each = 4
    b.buffers = [("bound", 0), ("arena", elements * 4), *[("bound", 1 + i) for i in range(outputs)]]
    b.outputs = [((rows, width), np.float32) for _ in range(outputs)]
    b.add(scale, [(1, 0), (0, 0)], [elements, each, 2], ceil_div(elements, each))
    for i in range(outputs):
        b.add(scale, [(2 + i, 0), (1, 0)], [elements, each, 3 + i], ceil_div(elements, each), after=(0,))
    return b
