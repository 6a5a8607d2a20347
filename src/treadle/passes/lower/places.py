"""Lookups whose tables kernels write, because sizes are known at binding."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dtypes import i64
from treadle.graph.dim import maximum, minimum
from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.reals import bits_of_real
from treadle.graph.shape import elements, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.lookup import Lookup, call_of
from treadle.plan.call import Call
from treadle.plan.kernels.places import PlacesArgs, PlacesSpec
from treadle.records import dataclass

_POSITION_NS = 5.0


@dataclass(frozen=True, slots=True)
class Places:
    """The table of an axis: how its `count` positions look up `size` positions of x; see `PlacesArgs`."""

    spec: PlacesSpec
    count: int
    size: int
    skipped: int = 0
    begin: int = 0
    scale: float = 1.0

    @staticmethod
    def unchanged(size: int) -> Places:
        """The table of an axis that is copied whole."""
        return Places(PlacesSpec(how="constant"), size, size)

    @staticmethod
    def padded(size: int, begin: int, end: int, mode: str) -> Places:
        """The table of an axis with these pads."""
        count, spec = size + begin + end, PlacesSpec(how=mode)
        if mode == "constant":
            return Places(spec, count, size, begin=begin)
        taken = maximum(-begin, 0)
        return Places(spec, count, size - taken - maximum(-end, 0), skipped=taken, begin=maximum(begin, 0))

    @property
    def middle(self) -> tuple[int, int]:
        """The range of positions that follow each other in x."""
        if self.spec.how == "nearest":
            return 0, 0
        low = minimum(maximum(self.begin, 0), self.count)
        return low, maximum(low, minimum(self.count, self.begin + self.size))

    def call(self, node: Node, ctx: LowerContext, table: Value, first: int, stride: int) -> Call:
        """The call that writes the entries from `first` on of `table`."""
        chunks, per_chunk = ctx.partition(self.count, _POSITION_NS)
        args = PlacesArgs(
            units=self.count,
            units_per_chunk=per_chunk,
            first=first,
            size=self.size,
            skipped=self.skipped,
            begin=self.begin,
            stride=stride,
            scale=bits_of_real(self.scale),
        )
        cost = ctx.machine.call_ns + self.count * _POSITION_NS
        return ctx.call(node, self.spec, (table,), (), args=args, chunks=chunks, cost=cost)


def open_lookup_calls(node: Node, ctx: LowerContext, value: Value, axes: Sequence[Places | None]) -> list[Call]:
    """The lookup of `lookup_call` with tables that are written first.

    `axes` has a table for each axis of x, None where it does not change. `value` holds one element, for positions
    outside of x.
    """
    x = node.operand(0)
    sizes = physical_shape(x.static_shape, x.layout)
    strides = strides_of(sizes)
    run = elements(sizes[len(axes) :])
    kept = list(axes)
    while len(kept) > 1 and kept[-1] is None:
        kept.pop()
        run *= sizes[len(kept)]
    tables: list[tuple[Places, int]] = []
    previous: Places | None = Places.unchanged(1)
    for axis, places in enumerate(kept):
        if places is None and previous is None:
            size = sizes[axis] * tables.pop()[0].size
            tables.append((Places.unchanged(size), strides[axis]))
        else:
            tables.append((places or Places.unchanged(sizes[axis]), strides[axis]))
        previous = places
    counts = tuple(places.count for places, _ in tables)
    table = ctx.temporary(f"{node.output.name}.places", i64, (sum(counts) + 1,))
    calls: list[Call] = []
    first = 0
    for places, stride in tables:
        calls.append(places.call(node, ctx, table, first, stride))
        first += places.count
    return [*calls, call_of(node, ctx, Lookup(table, value, counts, run, tables[-1][0].middle))]
