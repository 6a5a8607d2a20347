"""The state of sessions, and the state of a run."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import forking
from treadle.compat.tensorflow.errors import FailedPreconditionError
from treadle.compile_settings import CompileCounter
from treadle.errors import RunTimeoutError
from treadle.ops.op import Array
from treadle.runtime.pool import Pool

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Operation


class Store:
    """The values of variables, and the random generators, of one session or of eager execution."""

    def __init__(self) -> None:
        self.values: weakref.WeakKeyDictionary[Any, Array] = weakref.WeakKeyDictionary()
        self.generators: weakref.WeakKeyDictionary[Any, np.random.Generator] = weakref.WeakKeyDictionary()
        self.drawing = forking.lock()
        self._changing: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
        self._finding = forking.lock()

    def assign(self, variable: Any, value: Array) -> None:
        """Set the value of `variable` to an array that is not written to again."""
        with self._lock_of(variable):
            self.values[variable] = value

    def add(self, variable: Any, delta: Array, sign: int) -> Array:
        """Add `delta` to the value of `variable`, or subtract it, atomically. Returns the new value.

        Raises FailedPreconditionError if the variable has no value.
        """
        with self._lock_of(variable):
            held = self.read(variable)
            found = np.asarray(held + delta if sign > 0 else held - delta, held.dtype)
            found.flags.writeable = False
            self.values[variable] = found
            return found

    def read(self, variable: Any) -> Array:
        """Return the value of `variable`. Raises FailedPreconditionError if it has none."""
        return value_in(self.values, variable)

    def _lock_of(self, variable: Any) -> threading.RLock:
        with self._finding:
            found = self._changing.get(variable)
            if found is None:
                found = self._changing[variable] = forking.lock()
            return found

    def generator(self, key: Operation, seed: int | None) -> np.random.Generator:
        """Return the generator of an op. It continues from run to run and starts again in a new session."""
        with self.drawing:
            if key not in self.generators:
                self.generators[key] = np.random.Generator(np.random.Philox(seed))
            return self.generators[key]


def value_in(values: Mapping[Any, Array | None], variable: Any) -> Array:
    """Return the value of `variable` in `values`. Raises FailedPreconditionError if it has none."""
    held = values.get(variable)
    if held is None:
        raise FailedPreconditionError(
            None,
            None,
            f"Attempting to use uninitialized value {variable.op_name}; "
            "run tf.compat.v1.global_variables_initializer() first",
        )
    return held


@dataclass(frozen=True, slots=True)
class Counts:
    """How many native runs a function or session has made, and how many plans were compiled for them."""

    runs: CompileCounter = field(default_factory=CompileCounter)
    compiles: CompileCounter = field(default_factory=CompileCounter)


class Counted:
    """Something that is run and says what its runs took."""

    _counts: Counts

    @property
    def native_runs(self) -> int:
        """How many native runs the runs so far took: one each, unless Python stands between their parts."""
        return self._counts.runs.count

    @property
    def compiles(self) -> int:
        """How many plans were compiled for the runs so far."""
        return self._counts.compiles.count


@dataclass(slots=True)
class Run:
    """A run: its state and limits, and the results of Python functions whose shapes were unknown before.

    `counts` counts what it takes.
    """

    store: Store
    inter_op: int | None = None
    pool: Pool | None = None
    timeout: float | None = None
    results: dict[Operation, list[Array]] = field(default_factory=dict)
    number: int = 0
    deadline: float | None = None
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.number = next(_numbers)
        self.deadline = None if self.timeout is None else time.monotonic() + self.timeout

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of treadle.Session.run. Raises RunTimeoutError after the deadline."""
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise RunTimeoutError(f"the run did not end within {self.timeout:g} s")
        return {"inter_op": self.inter_op, "pool": self.pool, "timeout": left}

    def nested(self) -> Run:
        """Return a run inside this one, with results of its own."""
        timeout = None if self.deadline is None else self.arguments()["timeout"]
        return Run(self.store, self.inter_op, self.pool, timeout, counts=self.counts)


_numbers = itertools.count(1)
RUNS: dict[int, Run] = {}
"""The runs in progress, by number. Python functions inside a graph look up their run here."""

EAGER = Store()
"""The state of eager execution."""
