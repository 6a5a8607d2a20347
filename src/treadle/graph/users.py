"""The nodes that read a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.graph.node import Node


class Users:
    """Nodes, each as often as it reads the value, in the order in which they first read it.

    Adding, removing and finding a node takes the same time however many there are.
    """

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[Node, int] = {}
        self._total = 0

    @property
    def counts(self) -> Mapping[Node, int]:
        """How often each node reads the value."""
        return self._counts

    def append(self, node: Node) -> None:
        """Add one reading by `node`."""
        self._counts[node] = self._counts.get(node, 0) + 1
        self._total += 1

    def remove(self, node: Node) -> None:
        """Take away one reading by `node`. Raises KeyError if there is none."""
        count = self._counts[node]
        if count == 1:
            del self._counts[node]
        else:
            self._counts[node] = count - 1
        self._total -= 1

    def clear(self) -> None:
        """Take away all readings."""
        self._counts.clear()
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def __contains__(self, node: object) -> bool:
        return node in self._counts

    def __iter__(self) -> Iterator[Node]:
        if len(self._counts) == self._total:
            return iter(list(self._counts))
        return iter([node for node, count in self._counts.items() for _ in range(count)])
