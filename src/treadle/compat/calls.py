"""Calls met before, by their form: what they are given but for the elements of their tensors.

What stands between the arguments of a call and its compiled code comes to the same for the same form, so it is done once.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

from treadle import forking

MULTIPLY = frozenset({"matmul", "einsum", "attention", "conv", "conv_transpose", "lstm", "gru", "rnn"})
"""Ops that the provider of matrix products may have a part in."""

T = TypeVar("T")


class Met(Enum):
    """Calls that nothing is kept of."""

    ONCE = "met once"
    NEVER = "the result does not follow from the form and the elements alone"


class Calls(Generic[T]):
    """What is known of calls, by form. Safe from many threads.

    Of `most` forms at most; the half of them that was used last is among these. A form that was met in this generation
    is found without a lock, so that it costs one look into a dictionary.
    """

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._young: dict[Hashable, T] = {}
        self._old: dict[Hashable, T] = {}
        self._lock = forking.lock()

    def get(self, form: Hashable) -> T | None:
        """What is known of calls of this form; None for nothing."""
        found = self._young.get(form)
        if found is None:
            found = self._old.get(form)
            if found is not None:
                self.keep(form, found)
        return found

    def keep(self, form: Hashable, known: T) -> None:
        """Let this be known from now on."""
        with self._lock:
            if len(self._young) >= self._half and form not in self._young:
                self._old, self._young = self._young, {}
            self._young[form] = known

    def __len__(self) -> int:
        """How many forms are held; one that was met in both generations counts twice."""
        return len(self._young) + len(self._old)
