"""The items of a list of tensors: persistent storage, of which the newest version holds the values."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from treadle import forking
from treadle.ops.op import Array

_LOCK = forking.lock()
"""Held while values move from one version to the next, and while an item is read."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """How an old version differs from the one that took its values: its length, and the one item that changed."""

    newer: ListStorage
    count: int
    index: int
    value: Array | None


class ListStorage:
    """Tensors by index, None for items that were never written; `cleared` has the indices of items cleared by a read.

    A change does not copy the other items. `derive` returns a new version, which takes over the values; the old
    version, which is seldom read again, then reads them through the new one. At most two versions share values: an
    older one that is still referenced gets a copy first.
    """

    __slots__ = ("__weakref__", "cleared", "difference", "older", "values")

    def __init__(self, values: list[Array | None]) -> None:
        self.values = values
        self.cleared: set[int] = set()
        self.difference: _Difference | None = None
        self.older: weakref.ref[ListStorage] | None = None

    def __len__(self) -> int:
        with _LOCK:
            return len(self.values) if self.difference is None else self.difference.count

    def __getitem__(self, index: int) -> Array | None:
        with _LOCK:
            difference = self.difference
            if difference is None:
                return self.values[index]
            return difference.value if index == difference.index else difference.newer.values[index]

    def __setitem__(self, index: int, value: Array) -> None:
        """Set an item of a version that holds its values; of a derived version only the index it was derived for."""
        self.values[index] = value

    def extend_to(self, count: int) -> None:
        """Append unwritten items up to a length of `count`, which is larger than the present one."""
        self.values.extend([None] * (count - len(self.values)))

    def append(self, value: Array) -> None:
        """Append an item."""
        self.values.append(value)

    def pop(self) -> None:
        """Remove the last item. The list must not be empty."""
        self.values.pop()

    def to_list(self) -> list[Array | None]:
        """Return all items in a new list."""
        with _LOCK:
            difference = self.difference
            if difference is None:
                return list(self.values)
            values = difference.newer.values[: difference.count]
            values.extend([None] * (difference.count - len(values)))
            if 0 <= difference.index < difference.count:
                values[difference.index] = difference.value
            return values

    def is_cleared(self, index: int) -> bool:
        """Return whether a read cleared the item."""
        with _LOCK:
            return index in self._cleared_indices()

    def clear(self, index: int) -> None:
        """Clear an item."""
        with _LOCK:
            self.detach()
            self._detach_older()
            self.values[index] = None
            self.cleared.add(index)

    def copy(self) -> ListStorage:
        """Return a copy, which may be changed."""
        with _LOCK:
            copied = ListStorage(self.to_list())
            copied.cleared = set(self._cleared_indices())
        return copied

    def derive(self, index: int) -> ListStorage:
        """Return a new version that takes over the values, for one change: set, append or remove item `index`."""
        with _LOCK:
            self.detach()
            self._detach_older()
            count = len(self.values)
            newer = ListStorage(self.values)
            newer.cleared, newer.older = self.cleared, weakref.ref(self)
            self.difference = _Difference(newer, count, index, self.values[index] if 0 <= index < count else None)
            self.values = []
        return newer

    def detach(self) -> None:
        """Copy the values from the newer version, if that took them over."""
        with _LOCK:
            if self.difference is not None:
                newer = self.difference.newer
                self.values, self.cleared = self.to_list(), set(newer.cleared)
                newer.older = self.difference = None

    def _detach_older(self) -> None:
        older = None if self.older is None else self.older()
        if older is not None:
            older.detach()
        self.older = None

    def _cleared_indices(self) -> set[int]:
        return self.cleared if self.difference is None else self.difference.newer.cleared
