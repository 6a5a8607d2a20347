"""The plans that a session keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from treadle import _native, forking
from treadle.lru import LRU
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.signature import CallSignature

Array = np.ndarray[Any, Any]


class Runnable(Protocol):
    """A model compiled for one signature."""

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Return the results for `inputs`, in the order in which the outputs were named."""
        ...

    def trim(self) -> None:
        """Free memory that no run uses at the moment."""
        ...


Compile = Callable[[CallSignature, tuple[str, ...]], Runnable]
"""Compiles the model for a signature of its inputs and the names of the outputs to compute."""


class Plans:
    """The plans of a session, by signature of the inputs and names of the outputs.

    Threads may share it; those that need the same new plan compile it once. `hot` is the key of the plan that runs take
    without calling `get`: it counts as the one used last.
    """

    def __init__(self, compile_: Compile, capacity: int) -> None:
        self._compile = compile_
        self._plans: LRU[tuple[CallSignature, tuple[str, ...]], Runnable] = LRU(capacity)
        self._pending: dict[tuple[CallSignature, tuple[str, ...]], threading.RLock] = {}
        self._lock = forking.lock()
        self.hot: tuple[CallSignature, tuple[str, ...]] | None = None

    def get(self, signature: CallSignature, outputs: tuple[str, ...]) -> Runnable:
        """Return the plan for inputs of this `signature` and these `outputs`; compile it if there is none."""
        key = (signature, outputs)
        plan = self._plans.get(key)
        if plan is not None:
            return plan
        with self._lock:
            pending = self._pending.setdefault(key, forking.lock())
        try:
            with pending:
                plan = self._plans.get(key)
                if plan is None:
                    plan = self._compile(signature, outputs)
                    if self.hot is not None:
                        self._plans.get(self.hot)
                    self._plans.put(key, plan)
        finally:
            with self._lock:
                self._pending.pop(key, None)
        return plan

    def all(self) -> list[Runnable]:
        """Return the plans kept at the moment, the most recently used last."""
        return self._plans.values()
