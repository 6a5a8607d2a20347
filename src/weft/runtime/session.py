"""Sessions: a model held ready to run, with a plan for each combination of input shapes it has met."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from weft import _native, knobs
from weft.graph.shape import StaticShape
from weft.runtime import threads
from weft.runtime.signature import Signature, Tensor

Array = np.ndarray[Any, Any]


class Runnable(Protocol):
    """What compiling a model for concrete shapes gives."""

    def run(self, inputs: Sequence[Array], team: _native.Team, *, intra_op: int = 0, inter_op: int = 0) -> list[Array]:
        """Results for `inputs`, in the order the outputs were asked for."""
        ...

    def trim(self) -> None:
        """Free memory that no run uses at the moment."""
        ...


Compile = Callable[[tuple[StaticShape, ...], tuple[str, ...]], Runnable]
"""(shape of each input, names of the outputs) -> what computes them."""


class Plans:
    """The least recently used plans are dropped; threads that need the same new plan compile it once."""

    def __init__(self, compile_: Compile, capacity: int) -> None:
        self._compile = compile_
        self._capacity = max(1, capacity)
        self._plans: OrderedDict[tuple[Any, ...], Runnable] = OrderedDict()
        self._pending: dict[tuple[Any, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, shapes: tuple[StaticShape, ...], outputs: tuple[str, ...]) -> Runnable:
        """The plan for input `shapes` and `outputs`, compiled now if it is not there."""
        key = (shapes, outputs)
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
            pending = self._pending.setdefault(key, threading.Lock())
        with pending:
            with self._lock:
                found = self._plans.get(key)
            if found is None:
                found = self._compile(shapes, outputs)
                with self._lock:
                    self._plans[key] = found
                    while len(self._plans) > self._capacity:
                        self._plans.popitem(last=False)
        with self._lock:
            self._pending.pop(key, None)
        return found

    def all(self) -> list[Runnable]:
        """The plans held at the moment."""
        with self._lock:
            return list(self._plans.values())


class SessionBase:
    """The running half of a session: checks arguments, finds the plan, runs it on the team.

    Safe to use from many threads at once.
    """

    def __init__(
        self, signature: Signature, compile_: Compile, *, intra_op: int | None = None, inter_op: int | None = None
    ) -> None:
        self._signature = signature
        self._intra_op = threads.validated("intra_op", intra_op, "Session(intra_op=)")
        self._inter_op = threads.validated("inter_op", inter_op, "Session(inter_op=)")
        self._plans = Plans(compile_, knobs.get("WEFT_PLAN_CACHE"))

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Name, dtype and shape of each input."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Name, dtype and shape of each output."""
        return self._signature.outputs

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Compute the named `outputs` (all for None) from `inputs`.

        Inputs are arrays of exactly the declared dtype and a fitting shape. Returns a fresh array for each
        output, by name. A combination of shapes met for the first time is compiled first. Raises InputError
        for arguments that do not fit, RunError if a node fails; the session stays usable.
        """
        wanted = self._signature.select(outputs)
        arrays = self._signature.arrays(inputs)
        plan = self._plans.get(tuple(array.shape for array in arrays), wanted)
        results = plan.run(arrays, threads.default_team(), intra_op=self._intra_op, inter_op=self._inter_op)
        return dict(zip(wanted, results, strict=True))

    def trim(self) -> None:
        """Free the memory that no run uses at the moment; it comes back with the next run."""
        for plan in self._plans.all():
            plan.trim()

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return f"<weft.Session ({inputs}) -> ({', '.join(map(str, self.outputs))})>"
