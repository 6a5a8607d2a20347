"""Names of what programs do, so that events of the native core can be told in the model's words."""

from __future__ import annotations

import weakref
from typing import NamedTuple


class StepLabel(NamedTuple):
    """A step's name in the model and the op it does."""

    node: str
    op: str


class Registry:
    """The labels of every program that exists, and while a trace is recorded also of those that no longer do."""

    def __init__(self) -> None:
        self._labels: dict[int, tuple[StepLabel, ...]] = {}
        self._kept: dict[int, tuple[StepLabel, ...]] = {}
        self._recording = False

    def register(self, owner: object, program: int, labels: tuple[StepLabel, ...]) -> None:
        """Remember the labels of the program numbered `program` for as long as `owner` lives."""
        self._labels[program] = labels
        weakref.finalize(owner, self._forget, program)

    def _forget(self, program: int) -> None:
        labels = self._labels.pop(program, None)
        if self._recording and labels is not None:
            self._kept[program] = labels

    def keep(self, *, recording: bool) -> None:
        """While recording, labels outlive their owners: events may still speak of them."""
        self._recording = recording
        if not recording:
            self._kept.clear()

    def label(self, program: int, step: int) -> StepLabel:
        """The label of step `step` of a program; a made-up one if the program is unknown."""
        labels = self._labels.get(program) or self._kept.get(program)
        return labels[step] if labels is not None else StepLabel(f"step {step}", "unknown")


PROGRAMS = Registry()
