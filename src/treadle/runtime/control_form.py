"""Branches and loops as steps: how each finds the memory of its bodies among its pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treadle import _native

TemplateBody = tuple[_native.ProgramTemplate, Sequence[int], Sequence[_native.StepMaker]]
"""A body with open sizes: its template, the caps of its steps, and what makes its steps that are no kernels."""


class BranchForm(NamedTuple):
    """A step that runs the first of two bodies if the byte at the pointer `condition` is not 0, else the second one.

    `operands` are the numbers of the step's pointers to the inputs of the bodies, then to their outputs.
    """

    condition: int
    operands: Sequence[int]

    def step(self, bodies: Sequence[_native.Program], sizes: Sequence[int]) -> _native.ControlStep:  # noqa: ARG002
        """Returns the step that runs `bodies`; a branch has no `sizes`."""
        yes, no = bodies
        return _native.ControlStep.branch(self.condition, (yes, self.operands), (no, self.operands))

    def maker(self, symbols: int, bodies: Sequence[TemplateBody]) -> _native.StepMaker:
        """Returns what makes the step of `bodies` over so many symbols when their template is bound."""
        yes, no = bodies
        return _native.StepMaker.branch(symbols, self.condition, self.operands, yes, no)


class LoopForm(NamedTuple):
    """A step that runs a body again and again.

    The inputs of the body are the number of the iteration, carried values, items of sliced values and captured values;
    its outputs whether there is another iteration if it `decides`, carried values and items of stacked values. The step
    has pointers to its results, then to what it reads.

    Attributes:
        carried: The number of carried values.
        stacked: The number of stacked values.
        reads: How many values the step reads: limit, condition, carried, sliced and captured values.
        has_limit: Whether it reads a limit of its iterations.
        has_condition: Whether it reads whether there is a first iteration.
        decides: Whether the body says if there is another iteration.
        sliced: The number of sliced values.
    """

    carried: int
    stacked: int
    reads: int
    has_limit: bool
    has_condition: bool
    decides: bool
    sliced: int

    def step(self, bodies: Sequence[_native.Program], sizes: Sequence[int]) -> _native.ControlStep:
        """Returns the step that runs the body.

        `sizes` are the most iterations (-1: any number), then bytes: of each carried value, of an item of each stacked
        and of each sliced value.
        """
        (body,) = bodies
        most, *others = sizes
        carried, others = others[: self.carried], others[self.carried :]
        stacked, sliced = others[: self.stacked], others[self.stacked :]
        captured = self.reads - self.has_limit - self.has_condition - len(carried) - len(sliced)
        flags = self.has_limit, self.has_condition, self.decides
        return _native.ControlStep.loop(body, *flags, carried, stacked, sliced, captured, most)

    def maker(self, symbols: int, bodies: Sequence[TemplateBody]) -> _native.StepMaker:
        """Returns what makes the step of the body over so many symbols when its template is bound."""
        (body,) = bodies
        flags = self.has_limit, self.has_condition, self.decides
        captured = self.reads - self.has_limit - self.has_condition - self.carried - self.sliced
        counts = self.carried, self.stacked, self.sliced, captured
        return _native.StepMaker.loop(symbols, body, *flags, *counts)


ControlForm = BranchForm | LoopForm

FORMS: dict[str, type[ControlForm]] = {"branch": BranchForm, "loop": LoopForm}
"""The forms by their names on disk. Their fields are JSON."""
