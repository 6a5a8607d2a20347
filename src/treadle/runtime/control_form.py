"""Branches as steps: how each finds the memory of its bodies among its pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treadle import _native


class BranchForm(NamedTuple):
    """A step that runs the first of two bodies if the byte at the pointer `condition` is not 0, else the second one.

    `operands` are the numbers of the step's pointers to the inputs of the bodies, then to their outputs.
    """

    condition: int
    operands: Sequence[int]

    def step(self, bodies: Sequence[_native.Program]) -> _native.ControlStep:
        """Returns the step that runs `bodies`."""
        yes, no = bodies
        return _native.ControlStep.branch(self.condition, (yes, self.operands), (no, self.operands))


ControlForm = BranchForm

FORMS: dict[str, type[ControlForm]] = {"branch": BranchForm}
"""The forms by their names on disk. Their fields are JSON."""
