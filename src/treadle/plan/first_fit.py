"""Where buffers lie in the arena: first fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

ALIGNMENT = 64
"""Buffers in the arena begin at multiples of this many bytes."""

K = TypeVar("K", bound=Hashable)


def first_fit(sizes: Iterable[tuple[K, int]], rivals: Callable[[K], Iterable[K]]) -> tuple[dict[K, int], int]:
    """Returns the byte offset of each buffer, and the size of the arena.

    Args:
        sizes: The buffers with their sizes in bytes. Each is placed at the lowest offset that those before it leave.
        rivals: Returns the buffers that may be in use at the same time as one, so that they must not overlap.
    """
    placed: dict[K, tuple[int, int]] = {}
    arena = 0
    for key, size in sizes:
        room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end in sorted(placed[other] for other in rivals(key) if other in placed):
            if offset + room <= start:
                break
            offset = max(offset, end)
        placed[key] = offset, offset + room
        arena = max(arena, offset + room)
    return {key: start for key, (start, _) in placed.items()}, arena
