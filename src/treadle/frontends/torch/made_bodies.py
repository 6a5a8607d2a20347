"""What was made of bodies behind sizes that depend on data, while the code around them is run again and again.

Code behind such a size is run for all sizes, for samples, and for each part that is compiled. Without this, bodies
inside one another would be run a number of times that multiplies by level.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from treadle.graph.dim import is_expression
from treadle.lru import LRU
from treadle.ops.op import Info

MOST_KEPT = 1024
"""For how many bodies, each with what it reads in one form, is kept what was made."""


class MadeBodies:
    """What was made of the bodies of one program, by keys. Threads may share it."""

    def __init__(self) -> None:
        self._kept: LRU[Hashable, Any] = LRU(MOST_KEPT)
        self._alive: dict[int, object] = {}

    def keep_alive(self, held: object) -> None:
        """Keeps `held`, whose parts keys have, alive: no other object gets their identity."""
        self._alive[id(held)] = held

    def get(self, key: Hashable) -> Any:
        """Returns what was kept; None if there is nothing, or no key."""
        return None if key is None else self._kept.get(key)

    def put(self, key: Hashable, made: Any) -> None:
        """Keeps what was made, if there is a key."""
        if key is not None:
            self._kept.put(key, made)


def key_of_held(held: Any) -> Hashable:
    """Returns a key of Python values with holes in place of tensors. Objects without a hash count by identity."""
    if isinstance(held, list | tuple):
        return type(held), tuple(map(key_of_held, held))
    if isinstance(held, dict):
        return dict, tuple((key, key_of_held(entry)) for key, entry in held.items())
    if held is None or isinstance(held, bool | int | float | str):
        return type(held), repr(held)
    return held if _is_hashable(held) else _Same(held)


def key_of_forms(infos: Sequence[Info]) -> Hashable:
    """Returns a key of dtypes, ranks and known elements, whatever sizes are."""
    return tuple((info.dtype, None if info.shape is None else len(info.shape), _elements(info)) for info in infos)


def _elements(info: Info) -> Hashable:
    if info.value is None:
        return None
    return tuple("size" if is_expression(each) else each for each in info.value.reshape(-1).tolist())


def _is_hashable(held: Any) -> bool:
    try:
        hash(held)
    except TypeError:
        return False
    return True


class _Same:
    """An object as itself alone."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._held is other._held

    def __hash__(self) -> int:
        return id(self._held)
