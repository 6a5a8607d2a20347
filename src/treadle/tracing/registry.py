"""The labels of steps: they give events of the native core the names of the model's nodes."""

from __future__ import annotations

import weakref
from typing import NamedTuple


class StepLabel(NamedTuple):
    """The node of a step in the model, and its op."""

    node: str
    op: str


class Registry:
    """The labels of all programs; during a trace also of programs that have been freed."""

    def __init__(self) -> None:
        self._labels: dict[int, tuple[StepLabel, ...]] = {}
        self._kept: dict[int, tuple[StepLabel, ...]] = {}
        self._recording = False

    def register(self, owner: object, program: int, labels: tuple[StepLabel, ...]) -> None:
        """Keep the labels of the program numbered `program` for as long as `owner` lives."""
        self._labels[program] = labels
        weakref.finalize(owner, self._forget, program)

    def _forget(self, program: int) -> None:
        labels = self._labels.pop(program, None)
        if self._recording and labels is not None:
            self._kept[program] = labels

    def keep(self, *, recording: bool) -> None:
        """Keep labels beyond the life of their owners while a trace is recorded: its events may refer to them."""
        self._recording = recording
        if not recording:
            self._kept.clear()

    def label(self, program: int, step: int) -> StepLabel:
        """Return the label of a program's step; a generated one if the program is unknown."""
        labels = self._labels.get(program) or self._kept.get(program)
        return labels[step] if labels is not None else StepLabel(f"step {step}", "unknown")


PROGRAMS = Registry()
