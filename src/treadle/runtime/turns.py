"""Runs of new sizes that take turns on the same programs.

A program for one combination of sizes alone costs a new binding: its memory, and that of its first run. Programs that
are bound to one combination after another keep theirs. Sizes that come back when no such program is bound to them any
more get a plan of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import _native, forking
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.program_template import MovingPlan

if TYPE_CHECKING:
    from treadle.runtime.executable import Executable
    from treadle.runtime.plans import Runnable

Array = np.ndarray[Any, Any]

MOST_IDLE = 8
"""How many programs without a run are kept for the next sizes: more runs of new sizes at once are rare."""


class Turns:
    """Programs for the outputs `outputs` that runs of new sizes take, one run at a time. Threads may share it."""

    def __init__(self, make: Callable[[], MovingPlan | None]) -> None:
        """Make one that has no programs yet; `make` returns a plan for one user, or None if there is none."""
        self._make = make
        self._idle: list[MovingPlan] = []  # the one that was given back last is the last one
        self._lock = forking.lock()

    def begin(self, sizes: Mapping[str, int], kept: Callable[[], Runnable]) -> Turn | None:
        """Return the plan for `sizes`, which are new; None if no program can be bound to them, or there is no memory.

        `kept` makes a plan for these sizes alone.
        """
        with self._lock:
            moving = self._idle.pop(0) if self._idle else None
        try:
            if moving is None:
                moving = self._make()
                if moving is None:
                    return None
            executable = moving.bind(sizes)
        except MemoryError:  # what is bound in part is dropped
            return None
        if executable is None:
            self.give_back(moving)
            return None
        return Turn(self, moving, kept)

    def take(self, symbols: Sequence[int]) -> MovingPlan | None:
        """Return an idle program that is bound to these values of its symbols; None if there is none."""
        with self._lock:
            for number, moving in enumerate(self._idle):
                if moving.symbols == symbols and moving.executable is not None:
                    return self._idle.pop(number)
        return None

    def give_back(self, moving: MovingPlan) -> None:
        """Let runs take `moving`."""
        dropped = None  # destroyed after the lock is released
        with self._lock:
            self._idle.append(moving)
            if len(self._idle) > MOST_IDLE:
                dropped = self._idle.pop(0)
        del dropped

    def trim(self) -> None:
        """Free the memory of idle programs."""
        with self._lock:
            idle = [moving.executable for moving in self._idle]
        for executable in idle:
            if executable is not None:
                executable.trim()


class Turn:
    """The plan for one combination of sizes: runs use a program that is bound to it, or a plan for it alone."""

    def __init__(self, turns: Turns, moving: MovingPlan, kept: Callable[[], Runnable]) -> None:
        """Take `moving`, which is bound to the sizes, for the first run."""
        self._turns = turns
        self._symbols = moving.symbols
        self._first: list[MovingPlan] = [moving]
        self._make_kept = kept
        self._kept: Runnable | None = None

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Return the results for `inputs`, in the order in which the outputs were named."""
        moving = None if self._kept is not None else self._take_first() or self._turns.take(self._symbols)
        if moving is None:
            return self.kept().run(inputs, team, request)
        assert moving.executable is not None, "it is bound"
        try:
            return moving.executable.run(inputs, team, request)
        finally:
            self._turns.give_back(moving)

    def _take_first(self) -> MovingPlan | None:
        try:
            return self._first.pop() if self._first else None
        except IndexError:  # another thread was faster
            return None

    def kept(self) -> Runnable:
        """Return the plan for these sizes alone, which runs use from now on."""
        if self._kept is None:
            self._kept = self._make_kept()
            first = self._take_first()
            if first is not None:
                self._turns.give_back(first)
        return self._kept

    @property
    def executable(self) -> Executable | None:
        """The executable of the plan for these sizes alone; None if it has several."""
        return getattr(self.kept(), "executable", None)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for moving in list(self._first):
            if moving.executable is not None:
                moving.executable.trim()
        if self._kept is not None:
            self._kept.trim()
