"""Lookups: copies described by one table of source places for each axis of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.errors import InternalError
from treadle.graph.dim import maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements, strides_of, text
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.lookup import OUTSIDE, LookupArgs, LookupSpec
from treadle.records import dataclass

Table = np.ndarray[Any, np.dtype[np.int64]]

_PLACE_NS = 1.5
"""Time of a run that is looked up by itself."""


def lookup_call(node: Node, ctx: LowerContext, value: Value, tables: Sequence[Table], run: int) -> Call:
    """y[i0, i1, ..., :] = x[tables[0][i0], tables[1][i1], ..., :], or `value` where an entry is OUTSIDE.

    There is a table for each axis of x's and y's memory but the last one, of `run` elements, where run > 1,
    and for each axis where it is 1. `value` holds one element.
    """
    x, y = node.operand(0), node.output
    sizes = x.static_shape if x.layout is None else x.layout.physical(x.static_shape)
    strides = strides_of(sizes)
    places = [np.where(t == OUTSIDE, OUTSIDE, t * s).astype(np.int64) for t, s in zip(tables, strides, strict=False)]
    places, run = _merged(places, sizes, run)
    shape = tuple(len(table) for table in places)
    if elements(shape) * run * y.known_dtype.size != nbytes(y):
        raise InternalError(f"{node.place}: tables of {shape} places do not fill {text(y.static_shape)}")
    table = ctx.constant(np.concatenate([*places, np.zeros(1, np.int64)]), f"{y.name}.places")
    return call_of(node, ctx, Lookup(table, value, shape, run, _consecutive(places[-1], run)))


@dataclass(frozen=True, slots=True)
class Lookup:
    """The operands of a lookup: `table` has the tables of all axes, of `counts` entries each, and one entry more.

    The entries of the last table from `middle[0]` to `middle[1]` follow each other in x.
    """

    table: Value
    value: Value
    counts: tuple[int, ...]
    run: int
    middle: tuple[int, int]


def call_of(node: Node, ctx: LowerContext, lookup: Lookup) -> Call:
    """The call of the lookup from the first operand of `node` to its result."""
    x, y = node.operand(0), node.output
    counts, (low, high) = lookup.counts, lookup.middle
    units = elements(counts[:-1]) if elements(counts) else 0
    looked_up = (counts[-1] - (high - low)) * maximum(units, 1)
    traffic = 2.0 * nbytes(y)
    cost = ctx.moved_ns(traffic) + looked_up * _PLACE_NS + units
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = LookupSpec(size=x.known_dtype.size, rank=len(counts), single=lookup.run == 1)
    args = LookupArgs(
        units=units,
        units_per_chunk=per_chunk,
        run=lookup.run,
        low=low,
        high=high,
        sizes=tuple(maximum(count, 1) for count in counts),
    )
    reads = (x, lookup.table, lookup.value)
    return ctx.call(node, spec, (y,), reads, args=args, chunks=chunks, traffic=traffic, cost=ctx.machine.call_ns + cost)


def _merged(places: list[Table], sizes: Sequence[int], run: int) -> tuple[list[Table], int]:
    """The same lookup with trailing axes that are taken whole made part of the run."""
    kept = list(places)
    while len(kept) > 1 and _is_whole(kept[-1], sizes[len(kept) - 1], run):
        run *= len(kept.pop())
    return kept, run


def _is_whole(places: Table, size: int, run: int) -> bool:
    """True if `places` are those of an axis of `size` runs. Takes no memory for a size that is only declared."""
    return len(places) == size and np.array_equal(places, np.arange(len(places)) * run)


def _consecutive(table: Table, run: int) -> tuple[int, int]:
    """The longest range of `table` in which each entry is the one before plus `run`; empty if shorter than two."""
    if len(table) < 2:
        return 0, 0
    follows = (np.diff(table) == run) & (table[:-1] != OUTSIDE) & (table[1:] != OUTSIDE)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], follows.view(np.int8), [0]])))
    if not len(edges):
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best]) + 1
