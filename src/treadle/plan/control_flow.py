"""Branches, loops and stages as calls: which plans they run, on which values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.records import dataclass

if TYPE_CHECKING:
    from treadle.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Branch:
    """A call that runs the plan `yes` or `no`: its first read value decides.

    Both plans read the other values that the call reads and write those that it writes, in order.
    """

    yes: Plan
    no: Plan

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the bodies."""
        return self.yes, self.no


@dataclass(frozen=True, slots=True)
class Loop:
    """A call that runs the plan `body` again and again.

    What the call writes are the results of the carried values, the stacked values, the number of iterations made, and
    a spare for each carried value. It reads the limit if `has_limit`, the condition of the first iteration if
    `has_condition`, the initial carried values, the sliced values, and captured ones. Its sizes are the most iterations
    that it makes (-1: any number), then bytes: of each carried value, of an item of each stacked and each sliced one.

    The body reads the number of the iteration, carried values, items and captured values. It writes whether there is
    another iteration if it `decides` that, then carried values and items.
    """

    body: Plan
    carried: int
    stacked: int
    has_limit: bool
    has_condition: bool
    decides: bool
    sliced: int

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the bodies."""
        return (self.body,)


@dataclass(frozen=True, slots=True)
class Rest:
    """A call that runs what follows sizes that depend on data.

    They are the elements of the first values that it reads: `counts` says how many each has. The call's own sizes are
    known before. `stage`, a `runtime.data_stage.DataStage`, finds the plan once all are known, on the other values that
    the call reads.
    """

    stage: Any
    counts: tuple[int, ...]

    @property
    def plans(self) -> tuple[Plan, ...]:
        """None that are known before."""
        return ()
