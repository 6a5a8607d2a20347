"""top_k: a heap of the best elements so far, with the worst of them at the root, in the memory of the result."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.heap import Heap
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import load, store
from treadle.dtypes import i64
from treadle.plan.kernels.top_k import TopKArgs, TopKSpec
from treadle.records import dataclass

Entry = tuple[ir.Value, ir.Value]
"""An element and its position."""


def emit_top_k(k: Kernel, spec: TopKSpec) -> None:
    """values[o, :, i], positions[o, :, i] = the first `count` of x[o, :, i] in order; of equals, the first comes first.

    A unit is an (o, i).
    """
    args = k.args(TopKArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="row") as row:
        outer, inner = k.div(row.index, args.inner), k.rem(row.index, args.inner)
        heap = _Heap(k, spec, k.add(k.mul(outer, k.mul(args.count, args.inner)), inner), args.inner)
        first = k.add(k.mul(outer, k.mul(args.size, args.inner)), inner)

        def entry(index: Index, first: Index = first) -> Entry:
            return load(k, k.pointer(2), k.add(first, k.mul(index, args.inner)), spec.dtype), as_i64(index)

        with loop(k, 0, args.count, name="given") as turn:
            heap.put(turn.index, entry(turn.index))
        with loop(k, 0, k.div(args.count, 2), name="heapify") as turn:
            place = k.sub(k.sub(k.div(args.count, 2), 1), turn.index)
            heap.sift(place, heap.at(place), args.count)
        with when(k, k.less(0, args.count)), loop(k, args.count, args.size, name="element") as turn:
            new = entry(turn.index)
            with when(k, heap.strictly(new[0], heap.at(0)[0]), likely=False):
                heap.sift(0, new, args.count)
        with loop(k, 1, args.count, name="sorted") as turn:
            last = k.sub(args.count, turn.index)
            moved = heap.at(last)
            heap.put(last, heap.at(0))
            heap.sift(0, moved, last)


@dataclass(frozen=True, slots=True)
class _Heap(Heap[Entry]):
    """Entries at `first`, `first` + `stride` and so on of the results: each comes after its children in the order."""

    spec: TopKSpec
    first: Index
    stride: Index

    def at(self, place: Index) -> Entry:
        """The entry at a place."""
        k, index = self.k, self._index(place)
        return load(k, k.pointer(0), index, self.spec.dtype), load(k, k.pointer(1), index, i64)

    def put(self, place: Index, entry: Entry) -> None:
        """Set the entry at a place."""
        k, index = self.k, self._index(place)
        store(k, entry[0], k.pointer(0), index, self.spec.dtype)
        store(k, entry[1], k.pointer(1), index, i64)

    def _index(self, place: Index) -> Index:
        return self.k.add(self.first, self.k.mul(place, self.stride))

    def strictly(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Whether element `one` comes before `other` wherever they are."""
        b, dtype, sign = self.k.b, self.spec.dtype, ">" if self.spec.largest else "<"
        if not dtype.is_float:
            compare = b.icmp_signed if dtype.kind == "int" else b.icmp_unsigned
            return compare(sign, one, other)
        nan, number = (one, other) if self.spec.largest else (other, one)
        only_one = b.and_(b.fcmp_unordered("uno", nan, nan), b.fcmp_ordered("ord", number, number))
        return b.or_(b.fcmp_ordered(sign, one, other), only_one)

    def before(self, one: Entry, other: Entry) -> ir.Value:
        """Whether entry `one` comes before `other`."""
        b = self.k.b
        equal = b.not_(b.or_(self.strictly(one[0], other[0]), self.strictly(other[0], one[0])))
        return b.or_(self.strictly(one[0], other[0]), b.and_(equal, b.icmp_signed("<", one[1], other[1])))

    def above(self, one: Entry, other: Entry) -> ir.Value:
        """Whether entry `one` comes after `other`: the worst one is at the root."""
        return self.before(other, one)
