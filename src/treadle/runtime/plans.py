"""The plans that a session keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from treadle import _native, forking
from treadle.lru import LRU
from treadle.runtime.control import DEFAULT, Request, check_compile, compiling_for
from treadle.runtime.program_template import MovingPlan
from treadle.runtime.signature import CallSignature
from treadle.runtime.turns import Turns

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

Sizes = Mapping[str, int]
"""The sizes of a run's open dimensions, by name."""


class Rebinds(Protocol):
    """Binds plans that `Compile` has returned to other sizes of open dimensions."""

    def rebind(self, signature: CallSignature, sizes: Sizes, outputs: tuple[str, ...]) -> Runnable | None:
        """Return what `Compile` would for inputs of these sizes, if that is a plan that it has returned for others."""
        ...

    def moving(self, outputs: tuple[str, ...]) -> MovingPlan | None:
        """Return such a plan for one user, if it may be bound to one combination of sizes after another."""
        ...

    def note(self, signature: CallSignature) -> None:
        """Note that a plan for one user serves inputs of this signature, as rebind() does."""
        ...


_LOOK_SECONDS = 0.02
"""How often a run that waits for another thread's compile looks whether it should end."""


class Plans:
    """The plans of a session, by signature of the inputs and names of the outputs.

    Threads may share it; those that need the same new plan compile it once. `hot` is the key of the plan that runs take
    without calling `get`: it counts as the one used last.
    """

    def __init__(self, compile_: Compile, capacity: int, rebinds: Rebinds | None = None) -> None:
        self._compile = compile_
        self.rebinds = rebinds
        self._plans: LRU[tuple[CallSignature, tuple[str, ...]], Runnable] = LRU(capacity)
        self._turns: LRU[tuple[str, ...], Turns] = LRU(capacity)
        self._pending: dict[tuple[CallSignature, tuple[str, ...]], threading.RLock] = {}
        self._lock = forking.lock()
        self.hot: tuple[CallSignature, tuple[str, ...]] | None = None

    def get(
        self,
        signature: CallSignature,
        outputs: tuple[str, ...],
        sizes: Sizes | None = None,
        request: Request = DEFAULT,
    ) -> Runnable:
        """Return the plan for inputs of this `signature` and these `outputs`; compile it if there is none.

        `sizes` are those of the inputs' open dimensions, if they are known and nothing more is declared of these.
        `request` is that of the run that needs the plan. Raises RunTimeoutError or RunCancelledError if the run should
        end before the plan is compiled.
        """
        key = (signature, outputs)
        plan = self._plans.get(key)
        if plan is not None:
            return plan
        if sizes and self.rebinds is not None:
            plan = self._rebound(self.rebinds, signature, sizes, outputs)
            if plan is not None:
                self._put(key, plan)
                return plan
        with compiling_for(request):
            return self._compiled(key)

    def _compiled(self, key: tuple[CallSignature, tuple[str, ...]]) -> Runnable:
        with self._lock:
            pending = self._pending.setdefault(key, forking.lock())
        try:
            while not pending.acquire(timeout=_LOOK_SECONDS):
                check_compile()
            try:
                plan = self._plans.get(key)
                if plan is None:
                    plan = self._compile(*key)
                    self._put(key, plan)
            finally:
                pending.release()
        finally:
            with self._lock:
                self._pending.pop(key, None)
        return plan

    def _rebound(
        self, rebinds: Rebinds, signature: CallSignature, sizes: Sizes, outputs: tuple[str, ...]
    ) -> Runnable | None:
        """Return a plan that has served other sizes, bound to these; None if it does not serve them."""
        turns = self._turns.get(outputs)
        if turns is None:
            turns = Turns(partial(rebinds.moving, outputs))
            self._turns.put(outputs, turns)
        compile_ = self._compile  # the plan must not refer to these plans: dropped ones are to be free at once

        def kept() -> Runnable:
            return rebinds.rebind(signature, sizes, outputs) or compile_(signature, outputs)

        turn = turns.begin(sizes, kept)
        if turn is None:
            return rebinds.rebind(signature, sizes, outputs)
        rebinds.note(signature)
        return turn

    def _put(self, key: tuple[CallSignature, tuple[str, ...]], plan: Runnable) -> None:
        if self.hot is not None:
            self._plans.get(self.hot)
        self._plans.put(key, plan)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for turns in self._turns.values():
            turns.trim()
        for plan in self.all():
            plan.trim()

    def all(self) -> list[Runnable]:
        """Return the plans kept at the moment, the most recently used last."""
        return self._plans.values()
