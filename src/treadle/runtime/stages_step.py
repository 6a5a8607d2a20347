"""What is behind sizes that depend on data as a step that runs it in stages of its own, called from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from treadle import _native
from treadle.records import dataclass
from treadle.runtime.executable import FUNCTION_NS, Body, Layout, Step
from treadle.runtime.outputs import ArraySpec, OutputPool, SizedSpec
from treadle.runtime.python_step import view
from treadle.tracing.registry import StepLabel

Array = np.ndarray[Any, Any]


def stages_body(
    label: StepLabel,
    run: Callable[[Sequence[Array]], Sequence[Array]],
    reads: Sequence[ArraySpec],
    writes: Sequence[np.dtype[Any]],
) -> Body:
    """Return a program of one step that calls `run`, which finds the shapes of its results.

    Args:
        label: What the step is called.
        run: Takes arrays of the forms `reads` and returns those of the dtypes `writes`, as a part of the run around it.
        reads: The inputs of the program.
        writes: The dtypes of its outputs. It is bound to the SizedMemory of each.
    """
    count = len(reads) + len(writes)
    outputs, inputs = range(len(reads), count), range(len(reads))
    step = _StagesStep(run, tuple(reads), tuple(writes), OutputPool(shared=True))
    layout = Layout(
        steps=[Step(step, [(number, 0) for number in (*outputs, *inputs)], [], 1, FUNCTION_NS, {})],
        labels=[label],
        tasks=[(0, 1, 0.0, False)],
        successors=[[]],
        buffers=[("bound", number) for number in range(count)],
        arena_bytes=0,
        scratch_bytes=0,
        outputs=[SizedSpec(dtype) for dtype in writes],
        failures={},
        isa="",
        kept=None,
    )
    return Body.of(layout)


@dataclass(frozen=True, slots=True)
class _StagesStep:
    """A step that gets the addresses of outputs and operands, and gives each output memory of its own."""

    run: Callable[[Sequence[Array]], Sequence[Array]]
    reads: tuple[ArraySpec, ...]
    writes: tuple[np.dtype[Any], ...]
    pool: OutputPool
    detachable: ClassVar[bool] = True

    def __call__(self, addresses: tuple[int, ...]) -> None:
        """Calls the function."""
        count = len(self.writes)
        operands = [view(at, spec.shape, spec.dtype) for at, spec in zip(addresses[count:], self.reads, strict=True)]
        for address, dtype, result in zip(addresses, self.writes, self.run(operands), strict=False):
            array = np.ascontiguousarray(result, dtype)
            lease = self.pool.acquire(max(array.nbytes, 1))
            memory = np.frombuffer(memoryview(lease), np.uint8, count=array.nbytes)
            memory[...] = array.reshape(-1).view(np.uint8)
            _native.SizedMemory.put(address, lease, np.shape(result))
