"""Branches and loops as calls: which plans they run, on which values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
