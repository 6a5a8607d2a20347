"""How long binding takes: a template of a chain of steps, each with a buffer in the arena, to new sizes.

    python -m benches.micro.binding [steps ...]

Prints for each number of steps the times in us of: evaluating all expressions, making the native program, a new binding
as a whole, binding the program of one user again (and that with caches that hold nothing of it), and finding a binding
that was made before.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

import numpy as np

from treadle import _native
from treadle.graph.dim import ceil_div, computed
from treadle.graph.facts import Facts
from treadle.plan.binder import Encoder
from treadle.runtime.program_template import MovingPlan, OutputTemplate, ProgramTemplate, StepTemplate, TemplateLayout
from treadle.tracing.registry import StepLabel

REPEATS = 200

EVICTING_BYTES = 64 << 20
"""Memory that is written to leave nothing else in the caches."""

Kernel = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.c_void_p
)

CHUNK_NS = 20_000.0
"""What a chunk of a long op is worth."""

NOTHING = Kernel(lambda *_: 0)
"""A kernel that does nothing."""


def chain(steps: int) -> ProgramTemplate:
    """Returns a template of `steps` steps with four operands, twelve arguments and a partition of their own each."""
    facts = Facts()
    batch, length = facts.symbol("batch", 2), facts.symbol("length", 64)
    encoder = Encoder([facts.symbols["batch"], facts.symbols["length"]])
    none = encoder.integer(0)
    address = ctypes.cast(NOTHING, ctypes.c_void_p).value or 0
    calls = []
    sizes = []
    for number in range(steps):
        width = 64 + 16 * (number % 7)
        units = batch * length * width
        each = computed("units_per_chunk", _native.units_per_chunk, (units, 0.5 + number, CHUNK_NS, 16), least=1)
        values = [units, each, length * width, (length + 15) // 16, *(units * k + number for k in range(8))]
        args = [encoder.integer(value) for value in values]
        calls.append((args, encoder.integer(ceil_div(units, each)), encoder.real(units * (0.5 + number))))
        sizes.append(encoder.integer(units * 4))
    shape = [encoder.integer(batch), encoder.integer(length)]
    done = encoder.finish()
    slot = encoder.number_of
    buffers = [("bound", 0), ("bound", 1), *[("arena", slot(size)) for size in sizes]]
    pointers = [[(2 + max(0, number - back), slot(none)) for back in range(4)] for number in range(steps)]
    return ProgramTemplate(
        TemplateLayout(
            symbols=done.symbols,
            constants=done.constants,
            operations=done.operations,
            operands=done.operands,
            guards=[],
            steps=[
                StepTemplate(address, pointers[number], list(map(slot, args)), slot(chunks), slot(cost), {})
                for number, (args, chunks, cost) in enumerate(calls)
            ],
            labels=[StepLabel("node", "op")] * steps,
            tasks=[(number, 1, False) for number in range(steps)],
            successors=[[number + 1] if number + 1 < steps else [] for number in range(steps)],
            buffers=buffers,
            rivals=[(2 + a, 2 + b) for a in range(steps) for b in range(a + 1, min(a + 4, steps))],
            scratch_bytes=slot(none),
            outputs=[OutputTemplate(tuple(map(slot, shape)), np.dtype(np.float32))],
            failures={},
            isa="",
            kept=None,
        )
    )


def microseconds(call: Callable[[], object], evicting: np.ndarray | None = None) -> float:
    """Returns the median duration of `call`; before each, `evicting` is written."""
    times = []
    for _ in range(REPEATS):
        if evicting is not None:
            evicting += 1
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return median(times) / 1000


def main() -> None:
    """Prints the table."""
    titles = ("evaluate", "program", "new", "moved", "cold", "again")
    print(f"{'steps':>6} {'operations':>10} " + " ".join(f"{each:>9}" for each in titles))
    evicting = np.zeros(EVICTING_BYTES, np.uint8)
    for steps in map(int, sys.argv[1:] or ("10", "100", "1000")):
        template = chain(steps)
        native = template._native
        sizes = native.evaluate((2, 64))
        fresh = count(1)
        template.bind((2, 64))
        moving = template.moving(["batch", "length"])
        assert moving is not None, "no step has a body"

        def move(moving: MovingPlan = moving, fresh: Iterator[int] = fresh) -> object:
            return moving.bind({"batch": 2, "length": 64 + next(fresh)})

        times = (
            microseconds(lambda native=native: native.evaluate((2, 64))),  # type: ignore[misc]
            microseconds(lambda native=native, sizes=sizes: native.bind(sizes)),  # type: ignore[misc]
            microseconds(lambda template=template, fresh=fresh: template.bind((2, 64 + next(fresh)))),  # type: ignore[misc]
            microseconds(move),
            microseconds(move, evicting),
            microseconds(lambda template=template: template.bind((2, 64 + REPEATS))),  # type: ignore[misc]
        )
        print(f"{steps:6} {len(template.layout.operations):10} " + " ".join(f"{each:9.2f}" for each in times))


if __name__ == "__main__":
    main()
