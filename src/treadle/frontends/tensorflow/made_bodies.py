"""What is made of bodies once, though the nodes around them are translated again and again while sizes become known.

Without it, a body inside another one would be made several times for each time that the other one is: time would grow
with a power of the nesting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from treadle.graph.graph import Graph
from treadle.lru import LRU
from treadle.ops.info_keys import key_of
from treadle.ops.op import Info

T = TypeVar("T")

MOST_ATTEMPTS = 1024
"""How many bodies inside one are translated in advance: functions that call functions multiply them."""

MOST_NODES = 1 << 15
"""How many nodes a body has, with those of bodies inside it, that is made in advance: all are inferred together."""

MOST_KEPT = 256
"""How many attempts are kept."""


MOST_LATER = 1024
"""How many bodies are kept that are made once shapes are known."""


class MadeBodies:
    """The bodies of one model. Threads may share it."""

    def __init__(self) -> None:
        self._owners: dict[int, Any] = {}
        self._later: LRU[Hashable, Any] = LRU(MOST_LATER)
        self._attempts: LRU[Hashable, tuple[Sequence[Info], Any]] = LRU(MOST_KEPT)
        self._here = threading.local()
        self._sizes: WeakKeyDictionary[Graph, int] = WeakKeyDictionary()

    def number(self, owner: Any) -> int:
        """Return a number for keys that is that of `owner` alone, which is kept."""
        return id(self._owners.setdefault(id(owner), owner))

    @contextmanager
    def attempts(self) -> Iterator[bool]:
        """Count an attempt, which may make others inside it. Gives False once there are too many of these."""
        outer = getattr(self._here, "count", 0)
        self._here.count = outer + 1
        try:
            yield outer < MOST_ATTEMPTS
        finally:
            if not outer:
                self._here.count = 0

    def size(self, graph: Graph) -> int:
        """Return how many nodes `graph` has, with those of bodies inside it."""
        found = self._sizes.get(graph)
        if found is None:
            bodies = [attr for node in graph.nodes for attr in node.attrs.values() if isinstance(attr, Graph)]
            found = self._sizes[graph] = len(graph.nodes) + sum(map(self.size, bodies))
        return found

    def is_large(self, graph: Graph) -> bool:
        """Return whether a body is too large to be made in advance."""
        return self.size(graph) > MOST_NODES

    def note_later(self, graph: Graph, nodes: Graph) -> None:
        """Note that the body `graph` stands for such `nodes`, which are made later."""
        self._sizes[graph] = self.size(nodes)

    def later(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is made once shapes are known, the same each time while it is kept. It is not to be changed."""
        found: T | None = self._later.get(key)
        if found is None:
            found = make()
            self._later.put(key, found)
        return found

    def attempt(self, key: Hashable, infos: Sequence[Info], make: Callable[[], Any]) -> Any:
        """Return what `make` makes for operands of which this is known, not to be changed; None if it makes nothing.

        None, too, after too many attempts.
        """
        whole = (key, key_of(infos))
        found = self._attempts.get(whole)
        if found is not None:
            return found[1]
        with self.attempts() as is_allowed:
            made = make() if is_allowed else None
        if is_allowed:
            self._attempts.put(whole, (infos, made))
        return made

    def fail(self, key: Hashable, infos: Sequence[Info], found: Sequence[int] = ()) -> None:
        """Note that `key` cannot be made for operands of which this is known, and what was `found` on the way."""
        self._attempts.put((key, key_of(infos)), (infos, found))

    def failure(self, key: Hashable, infos: Sequence[Info]) -> Sequence[int] | None:
        """Return what was found on the way if that was noted; None if it was not."""
        noted = self._attempts.get((key, key_of(infos)))
        found: Sequence[int] | None = None if noted is None else noted[1]
        return found
