"""Python functions as steps of programs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from treadle.errors import RunError
from treadle.records import dataclass
from treadle.runtime.control import check_run
from treadle.runtime.executable import is_detachable
from treadle.runtime.python_calls import Caller, call_for_node
from treadle.runtime.stored_step import pickled_text

Array = np.ndarray[Any, Any]
PythonFunction = Callable[[Sequence[int], list[Array]], Sequence[Array]]
Form = tuple[int, np.dtype[Any]]
"""The rank and the dtype of an operand or a result."""


@dataclass(frozen=True, slots=True)
class PythonCall:
    """What a step that calls `function` knows beside sizes.

    Attributes:
        caller: The node.
        given: How many sizes the function takes.
        writes: The results.
        reads: The operands.
        function: Takes these sizes and the operands, and returns the results. If it has an attribute `storable` that is
            true, it can be pickled, and depends on nothing but the model. `detachable` is as in a PythonStep.
    """

    caller: Caller
    given: int
    writes: tuple[Form, ...]
    reads: tuple[Form, ...]
    function: PythonFunction

    @property
    def detachable(self) -> bool:
        """Whether its steps are."""
        return is_detachable(self.function)

    def __call__(self, sizes: Sequence[int]) -> BoundCall:
        """Returns the step for these sizes: those that the function takes, then those of results and operands."""
        number = iter(sizes)
        given = tuple(islice(number, self.given))
        writes, reads = (
            [(tuple(islice(number, rank)), dtype) for rank, dtype in forms] for forms in (self.writes, self.reads)
        )
        return BoundCall(self, given, writes, reads)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A step that gets addresses of results and operands and writes the results."""

    call: PythonCall
    given: tuple[int, ...]
    writes: list[tuple[tuple[int, ...], np.dtype[Any]]]
    reads: list[tuple[tuple[int, ...], np.dtype[Any]]]

    @property
    def detachable(self) -> bool:
        """Whether the function is."""
        return self.call.detachable

    def __call__(self, addresses: tuple[int, ...]) -> None:
        """Calls the function. Raises RunError if a result is of another form than inferred, or the run has ended."""
        call = self.call
        targets = [view(at, *form) for at, form in zip(addresses, self.writes, strict=False)]
        operands = [view(at, *form) for at, form in zip(addresses[len(targets) :], self.reads, strict=True)]
        results = call_for_node(call.caller, call.function, self.given, operands)
        check_run()  # the memory of results may be the caller's, who does not wait for them any more
        for target, result in zip(targets, results, strict=True):
            array = np.asarray(result)
            if array.shape != target.shape or array.dtype != target.dtype:
                what = f"{call.caller} returned {array.dtype}{list(array.shape)}"
                raise RunError(f"{what}; wanted {target.dtype}{list(target.shape)}", node=call.caller.node)
            target[...] = array


def is_storable(function: object) -> bool:
    """Whether a step of this Python function can be part of an artifact."""
    return bool(getattr(function, "storable", False))


def text_of(step: object) -> str | None:
    """Returns the form on disk of a step, from which a StoredStep is made; None if it has none."""
    call = step.call if isinstance(step, BoundCall) else step
    if not isinstance(call, PythonCall) or not is_storable(call.function):
        return None
    return pickled_text(step)


def view(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns an array over memory that the runtime owns. It is valid only while the step runs that got the address."""
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    return np.ndarray(shape, dtype, memory)
