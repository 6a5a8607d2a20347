"""Caps on the workers of single nodes, which may change while runs are in progress."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from treadle import forking
from treadle.errors import ThreadSettingError
from treadle.runtime.limits import checked


class Capped(Protocol):
    """What the caps are in force in."""

    def cap(self, asked: Mapping[str, int]) -> None:
        """Cap the nodes of `asked`, the others as the model does."""
        ...


class NodeCaps:
    """The caps that a session asks for, by the name of the node, in force in all that is compiled for it."""

    def __init__(self, asked: Mapping[str, int]) -> None:
        self._asked = dict(asked)
        self._lock = forking.lock()
        self._followers: weakref.WeakSet[Capped] = weakref.WeakSet()

    def follow(self, one: Capped) -> None:
        """Have the caps in force in `one` from now on."""
        with self._lock:
            self._followers.add(one)
            if self._asked:
                one.cap(self._asked)

    def set(self, asked: Mapping[str, int]) -> None:
        """Ask for these caps and no others, from the next op on. Any thread, any time."""
        with self._lock:
            self._asked = dict(asked)
            for one in list(self._followers):
                one.cap(self._asked)

    def get(self) -> dict[str, int]:
        """Those asked for."""
        with self._lock:
            return dict(self._asked)


def in_force(own: Mapping[str, int], asked: Mapping[str, int]) -> dict[str, int]:
    """The caps of nodes that the model caps as `own` says, where `asked` goes before.

    What is asked of a node counts for those called `<its name>/...` as well, which it may have become, unless more is
    said of them.
    """
    if not asked:
        return dict(own)
    return {name: next((asked[each] for each in _lineage(name) if each in asked), cap) for name, cap in own.items()}


def checked_caps(asked: Any, nodes: Iterable[str] | None, source: str) -> dict[str, int]:
    """`asked` as numbers of workers by name of a node; `nodes` are the names there are, None if not known yet.

    Raises ThreadSettingError for what is no mapping, an impossible number, or a name that no node has.
    """
    if not isinstance(asked, Mapping):
        raise ThreadSettingError(
            f"intra_op from {source}: wanted a mapping from names of nodes to numbers of workers, "
            f"got {asked!r} ({type(asked).__name__})"
        )
    caps = {name: checked("intra_op", value, f"{source} for node {name!r}") for name, value in asked.items()}
    if nodes is not None and caps:
        names = sorted(set(nodes))
        known = {each for name in names for each in _lineage(name)}
        for name in caps:
            if name not in known:
                raise ThreadSettingError(
                    f"intra_op from {source}: no node of the model is named {name!r}; {_nearest(name, names)}"
                )
    return caps


def _lineage(name: str) -> Iterable[str]:
    """`a/b/c`, `a/b`, `a`."""
    while name:
        yield name
        name = name[: max(0, name.rfind("/"))]


def _nearest(name: Any, names: list[str]) -> str:
    from difflib import get_close_matches  # only for the message of an error

    near = get_close_matches(str(name), names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"its {len(names)} nodes are {', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}"
