"""What is unique in a value: sorted, equal elements lie together, and the first of each group is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from treadle import dtypes
from treadle.graph.value import Value
from treadle.ops.op import Array

UNSORTED = (None, dtypes.string, dtypes.boolean, dtypes.f16, dtypes.bf16)
"""Elements that top_k does not order by a kernel."""


class AddsNodes(Protocol):
    """Adds core nodes to the graph of a front end."""

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Add a node and return its result."""
        ...

    def add_many(self, op: str, inputs: Sequence[Value | None], outputs: int, **attrs: Any) -> list[Value]:
        """Add a node and return its results."""
        ...

    def constant(self, data: Array) -> Value:
        """Add a constant."""
        ...


def unique_groups(b: AddsNodes, x: Value, *, keep_order: bool, nans_are_equal: bool) -> list[Value]:
    """Return the elements of x without repetition, where each is first, which of them each element is, and how often.

    They are in ascending order, or with `keep_order` in that of x.
    """
    flat = b.add("reshape", x, _integer(b, -1))
    ordered, places = _sorted(b, flat, b.add("shape", flat))
    found, groups, counts, starts = _groups(b, ordered, nans_are_equal=nans_are_equal)
    inverse = _scattered(b, groups, places)
    first = b.add("gather", places, starts, axis=0)
    if keep_order:
        first, order = _sorted(b, first, b.add("shape", first))
        found, counts = (b.add("gather", value, order, axis=0) for value in (found, counts))
        inverse = b.add("gather", _sorted(b, order, b.add("shape", order))[1], inverse, axis=0)
    return [found, first, inverse, counts]


def consecutive_groups(b: AddsNodes, x: Value) -> list[Value]:
    """Return the first element of each run of equal ones in x, which run each element is in, and how long they are."""
    return _groups(b, b.add("reshape", x, _integer(b, -1)), nans_are_equal=False)[:3]


def _groups(b: AddsNodes, x: Value, *, nans_are_equal: bool) -> list[Value]:
    """The first elements of runs, which run each element is in, how long runs are, and where they start."""
    length = b.add("shape", x)
    begins = _begins_group(b, x, length, nans_are_equal=nans_are_equal)
    groups = b.add("sub", _sums(b, begins), _integer(b, 1))
    starts = _first_axis(b, b.add("counted", *b.add_many("non_zero", [begins], 2), axis=1, label="unique"))
    counts = b.add("sub", _shifted(b, starts, length), starts)
    return [b.add("gather", x, starts, axis=0), groups, counts, starts]


def _sorted(b: AddsNodes, x: Value, length: Value) -> list[Value]:
    """The elements of x in ascending order, and where they were; of equal ones the first comes first."""
    return b.add_many("top_k", [x, length], 2, axis=0, largest=False, sorted=True)


def _begins_group(b: AddsNodes, ordered: Value, length: Value, *, nans_are_equal: bool) -> Value:
    """Whether an element is the first one or differs from the one before it."""
    zero, one = (_first_axis(b, _integer(b, number)) for number in (0, 1))
    before = b.add("concat", _slice(b, ordered, 0, 1), _slice(b, ordered, 0, -1), axis=0)
    differs = b.add("ne", ordered, before)
    if ordered.known_dtype.is_float and nans_are_equal:
        both = b.add("and", b.add("isnan", ordered), b.add("isnan", before))
        differs = b.add("and", differs, b.add("not", both))
    numbers = b.add("range", zero, _first_axis(b, length), one)
    return b.add("or", differs, b.add("eq", numbers, zero))


def _sums(b: AddsNodes, begins: Value) -> Value:
    return b.add("cumsum", b.add("cast", begins, to=dtypes.i64), axis=0, exclusive=False, reverse=False)


def _scattered(b: AddsNodes, values: Value, places: Value) -> Value:
    """`values` at `places`, which are all there are."""
    return b.add("scatter_elements", values, places, values, axis=0, reduction="none")


def _shifted(b: AddsNodes, x: Value, last: Value) -> Value:
    """The elements of x but the first, then `last`."""
    return b.add("concat", _slice(b, x, 1, 1 << 62), last, axis=0)


def _slice(b: AddsNodes, x: Value, start: int, end: int) -> Value:
    return b.add("slice", x, _integer(b, start), _integer(b, end), _integer(b, 0))


def _first_axis(b: AddsNodes, x: Value) -> Value:
    """x without its first axis, which has one element."""
    return b.add("squeeze", x, _integer(b, 0))


def _integer(b: AddsNodes, number: int) -> Value:
    """i64[1]."""
    return b.constant(np.array([number], np.int64))
