"""Caps on the workers of single nodes, which may change during runs."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from treadle import forking
from treadle.errors import ThreadSettingError
from treadle.runtime.limits import checked


class Capped(Protocol):
    """An executable whose nodes have caps."""

    def cap(self, caps: Mapping[str, int]) -> None:
        """Cap the nodes that `caps` names, the others as the model does."""
        ...


class NodeCaps:
    """The caps that a session sets, by name of the node, and the executables that they are in force in."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._caps = dict(caps)
        self._lock = forking.lock()
        self._executables: weakref.WeakSet[Capped] = weakref.WeakSet()

    def apply_to(self, executable: Capped) -> None:
        """Put the caps in force in `executable`, now and whenever they change."""
        with self._lock:
            self._executables.add(executable)
            if self._caps:
                executable.cap(self._caps)

    def set(self, caps: Mapping[str, int]) -> None:
        """Replace all caps, effective at the next op. Any thread, any time."""
        with self._lock:
            self._caps = dict(caps)
            for executable in list(self._executables):
                executable.cap(self._caps)

    def get(self) -> dict[str, int]:
        """Return the caps that the session sets."""
        with self._lock:
            return dict(self._caps)


def effective_caps(model: Mapping[str, int], session: Mapping[str, int]) -> dict[str, int]:
    """Return the caps of the nodes in `model`: those of `session` where it has one, else the model's own.

    A session's cap of a node also holds for nodes called `<its name>/...`, which passes may have made of it, unless the
    session caps these themselves.
    """
    if not session:
        return dict(model)
    return {
        name: next((session[each] for each in _lineage(name) if each in session), cap) for name, cap in model.items()
    }


def checked_caps(caps: Any, nodes: Iterable[str] | None, source: str) -> dict[str, int]:
    """Return `caps` as numbers of workers by name of a node; `nodes` are the names that exist, None if not known yet.

    Raises ThreadSettingError if it is no mapping, for a number that cannot be, and for a name that no node has.
    """
    if not isinstance(caps, Mapping):
        raise ThreadSettingError(
            f"intra_op from {source}: wanted a mapping from names of nodes to numbers of workers, "
            f"got {caps!r} ({type(caps).__name__})"
        )
    made = {name: checked("intra_op", value, f"{source} for node {name!r}") for name, value in caps.items()}
    if nodes is not None and made:
        names = sorted(set(nodes))
        known = {each for name in names for each in _lineage(name)}
        for name in made:
            if name not in known:
                raise ThreadSettingError(
                    f"intra_op from {source}: no node of the model is named {name!r}; {_nearest(name, names)}"
                )
    return made


def _lineage(name: str) -> Iterable[str]:
    """Yield `a/b/c`, `a/b`, `a` for the name `a/b/c`."""
    while name:
        yield name
        name = name[: max(0, name.rfind("/"))]


def _nearest(name: Any, names: list[str]) -> str:
    from difflib import get_close_matches  # only for the message of an error

    near = get_close_matches(str(name), names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"its {len(names)} nodes are {', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}"
