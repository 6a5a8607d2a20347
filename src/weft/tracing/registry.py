"""Names of what programs do, so that events of the native core can be told in the model's words."""

from __future__ import annotations

import weakref
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepLabel:
    """A step's name in the model and the op it does."""

    node: str
    op: str


_labels: dict[int, tuple[StepLabel, ...]] = {}
_kept: dict[int, tuple[StepLabel, ...]] = {}
_recording = False


def register(owner: object, program: int, labels: tuple[StepLabel, ...]) -> None:
    """Remember the labels of the program numbered `program` for as long as `owner` lives."""
    _labels[program] = labels
    weakref.finalize(owner, _forget, program)


def _forget(program: int) -> None:
    labels = _labels.pop(program, None)
    if _recording and labels is not None:
        _kept[program] = labels


def keep_all(recording: bool) -> None:
    """While recording, labels outlive their owners: events may still speak of them."""
    global _recording
    _recording = recording
    if not recording:
        _kept.clear()


def label(program: int, step: int) -> StepLabel:
    """The label of step `step` of a program; a made-up one if the program is unknown."""
    labels = _labels.get(program) or _kept.get(program)
    return labels[step] if labels is not None else StepLabel(f"step {step}", "unknown")
