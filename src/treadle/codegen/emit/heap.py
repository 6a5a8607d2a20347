"""Heaps in memory, in an order that the kernel defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.lanes import repeat_while
from treadle.codegen.emit.loops import when
from treadle.codegen.emit.types import I64
from treadle.records import dataclass

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Heap(ABC, Generic[Entry]):
    """Entries at places from 0 on: each is above the two at twice its place + 1 and + 2. The order is total."""

    k: Kernel

    @abstractmethod
    def at(self, place: Index) -> Entry:
        """The entry at a place."""

    @abstractmethod
    def put(self, place: Index, entry: Entry) -> None:
        """Set the entry at a place."""

    @abstractmethod
    def above(self, one: Entry, other: Entry) -> ir.Value:
        """Whether entry `one` belongs nearer to the root than `other`."""

    def sift(self, root: Index, entry: Entry, size: Index) -> None:
        """Put `entry` at `root` or below, in a heap of `size` places that is in order below `root`."""
        k = self.k
        last = k.sub(size, 1)

        def child(place: ir.Value) -> ir.Value:
            return as_i64(k.add(k.mul(place, 2), 1))

        def unfinished(state: list[ir.Value]) -> ir.Value:
            return k.b.and_(k.less(child(state[0]), size), k.less(state[1], 1))

        def down(state: list[ir.Value]) -> list[ir.Value]:
            left = child(state[0])
            right = as_i64(k.min(k.add(left, 1), last))
            place = k.b.select(self.above(self.at(left), self.at(right)), left, right)
            highest = self.at(place)
            sinks = self.above(highest, entry)
            with when(k, sinks):
                self.put(state[0], highest)
            return [k.b.select(sinks, place, state[0]), k.b.select(sinks, I64(0), I64(1))]

        place, _ = repeat_while(k, [as_i64(root), I64(0)], unfinished, down)
        self.put(place, entry)
