"""The cache from which the least recently used entries are dropped."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from typing import Generic, TypeVar

from treadle import forking

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


class LRU(Generic[K, V]):
    """A mapping that keeps the `capacity` entries used most recently.

    Threads may share it. `get` takes no lock: a hit costs one lookup and a note of when it was. `put` and `clear` take
    a lock that is free in the child of a fork() (`forking`). A child that was forked in the middle of a change can use
    the cache; at worst one entry is never dropped there.
    """

    __slots__ = ("_capacity", "_entries", "_lock", "_queue", "_tick")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[K, _Entry[K, V]] = {}
        # Each entry once, by a time of use that put() corrects when the entry comes to the front.
        self._queue: list[tuple[int, _Entry[K, V]]] = []
        self._tick = count().__next__
        self._lock = forking.lock()

    def get(self, key: K, default: D = None) -> V | D:  # type: ignore[assignment]
        """Return the value of `key`, which counts as used now, or `default` if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return default
        entry.used = self._tick()
        return entry.value

    def put(self, key: K, value: V) -> None:
        """Set the value of `key`, which counts as used now, and drop what exceeds the capacity."""
        dropped = []  # destroyed after the lock is released: destructors may run any code
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                dropped.append(entry.value)
                entry.value, entry.used = value, self._tick()
                return
            entry = _Entry(key, value, self._tick())
            heappush(self._queue, (entry.used, entry))
            self._entries[key] = entry
            while len(self._entries) > self._capacity and self._queue:
                used, oldest = heappop(self._queue)
                if self._entries.get(oldest.key) is not oldest:
                    continue
                if oldest.used != used:
                    heappush(self._queue, (oldest.used, oldest))
                else:
                    dropped.append(self._entries.pop(oldest.key).value)

    def values(self) -> list[V]:
        """Return the values, the most recently used last."""
        with self._lock:
            return [entry.value for entry in sorted(self._entries.values(), key=attrgetter("used"))]

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            dropped = list(self._entries.values())
            self._entries.clear()
            self._queue.clear()
        del dropped

    def __len__(self) -> int:
        return len(self._entries)


class _Entry(Generic[K, V]):
    """A value and the time at which it was last used."""

    __slots__ = ("key", "used", "value")

    def __init__(self, key: K, value: V, used: int) -> None:
        self.key = key
        self.value = value
        self.used = used
