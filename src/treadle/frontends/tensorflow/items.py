"""The items of lists of tensors, which go from list to list."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from treadle import forking
from treadle.ops.op import Array

_LOCK = forking.lock()
"""Held while items are handed on, or read."""


@dataclass(frozen=True, slots=True)
class _Later:
    """The items that took the values over, and in what those differ from these: how many there were, and one of them."""

    taker: Items
    count: int
    index: int
    value: Array | None


class Items:
    """Tensors by number, None where there is none; `gone` are the numbers of those that were taken.

    To change one does not copy the others: the changed items take the values over, and the old ones, which are seldom read
    again, have theirs through them. No more than two share values: if the items before the old ones are still there, they
    get values of their own first.
    """

    __slots__ = ("__weakref__", "before", "gone", "later", "values")

    def __init__(self, values: list[Array | None]) -> None:
        self.values = values
        self.gone: set[int] = set()
        self.later: _Later | None = None
        self.before: weakref.ref[Items] | None = None

    def __len__(self) -> int:
        with _LOCK:
            return len(self.values) if self.later is None else self.later.count

    def __getitem__(self, number: int) -> Array | None:
        with _LOCK:
            later = self.later
            if later is None:
                return self.values[number]
            return later.value if number == later.index else later.taker.values[number]

    def __setitem__(self, number: int, value: Array) -> None:
        """Change what is this one's own: of items handed on, the one they were handed on for."""
        self.values[number] = value

    def lengthen(self, count: int) -> None:
        """Let there be `count`, which is more than there are."""
        self.values.extend([None] * (count - len(self.values)))

    def append(self, value: Array) -> None:
        """Add one behind the last."""
        self.values.append(value)

    def drop(self) -> None:
        """Drop the last, which there must be."""
        self.values.pop()

    def listed(self) -> list[Array | None]:
        """All of them, in a list that is the caller's."""
        with _LOCK:
            later = self.later
            if later is None:
                return list(self.values)
            values = later.taker.values[: later.count]
            values.extend([None] * (later.count - len(values)))
            if 0 <= later.index < later.count:
                values[later.index] = later.value
            return values

    def is_gone(self, number: int) -> bool:
        """Whether it was taken."""
        with _LOCK:
            return number in self._gone()

    def take(self, number: int) -> None:
        """Let it be gone."""
        with _LOCK:
            self.part()
            self._part_before()
            self.values[number] = None
            self.gone.add(number)

    def copy(self) -> Items:
        """The same items, which may be changed."""
        with _LOCK:
            made = Items(self.listed())
            made.gone = set(self._gone())
        return made

    def handed_on(self, number: int) -> Items:
        """The same items, of which that one may be changed, added as the last, or dropped as the last, once."""
        with _LOCK:
            self.part()
            self._part_before()
            count = len(self.values)
            made = Items(self.values)
            made.gone, made.before = self.gone, weakref.ref(self)
            self.later = _Later(made, count, number, self.values[number] if 0 <= number < count else None)
            self.values = []
        return made

    def part(self) -> None:
        """Have values of its own again, where they were handed on."""
        with _LOCK:
            if self.later is not None:
                taker = self.later.taker
                self.values, self.gone = self.listed(), set(taker.gone)
                taker.before = self.later = None

    def _part_before(self) -> None:
        before = None if self.before is None else self.before()
        if before is not None:
            before.part()
        self.before = None

    def _gone(self) -> set[int]:
        return self.gone if self.later is None else self.later.taker.gone
