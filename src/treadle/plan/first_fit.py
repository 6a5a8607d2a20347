"""Where buffers lie in the arena: first fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

ALIGNMENT = 64
"""Buffers in the arena begin at multiples of this many bytes."""

K = TypeVar("K", bound=Hashable)


def first_fit(sizes: Iterable[tuple[K, int]], may_meet: Callable[[K, K], bool]) -> tuple[dict[K, int], int]:
    """Returns the byte offset of each buffer, and the size of the arena.

    Args:
        sizes: The buffers with their sizes in bytes. Each is placed at the lowest offset that those before it leave.
        may_meet: Whether two buffers may be in use at the same time, so that they must not overlap.
    """
    placed: list[tuple[K, int, int]] = []
    arena = 0
    for key, size in sizes:
        room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end in sorted((start, end) for other, start, end in placed if may_meet(key, other)):
            if offset + room <= start:
                break
            offset = max(offset, end)
        placed.append((key, offset, offset + room))
        arena = max(arena, offset + room)
    return {key: start for key, start, _ in placed}, arena
