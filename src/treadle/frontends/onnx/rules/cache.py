"""Caches of keys and values: new rows go to the places of their texts, all others stay.

A pass leaves them in the memory of the caller where the caller gives the same memory for the cache before and after.
"""

from __future__ import annotations

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.graph.value import Value


def stored(past: Value, new: Value, starts: Value, b: Builder) -> Value:
    """`past` with the rows of each text of `new` from its place in `starts` on.

    `past` is [N, heads, cache, size], `new` [N, heads, tokens, size], `starts` i64 [N]. A run fails if a row is out of
    range.
    """
    rank = 3
    places = b.add("add", b.add("unsqueeze", starts, b.integers([1])), b.numbers(b.size(new, 2)))
    texts, heads = (b.numbers(b.size(new, axis)) for axis in (0, 1))
    shape = b.add("shape", new, start=0, end=rank)
    spread = [
        b.add("expand", b.add("unsqueeze", each, b.integers(axes)), shape)
        for each, axes in ((texts, [1, 2]), (heads, [0, 2]), (places, [1]))
    ]
    indices = b.add("concat", *(b.add("unsqueeze", each, b.integers([rank])) for each in spread), axis=rank)
    return b.add("scatter_nd", past, indices, new, reduction="none")


def with_room(x: Value, least: Value, b: Builder, *, axis: int, rank: int) -> Value:
    """`x` of rank `rank` with zeros behind `axis` until that has at least `least` elements, an i64 scalar."""
    more = b.add("max", b.add("sub", least, b.size(x, axis)), b.scalar(0, dtypes.i64))
    before, after = [0] * (rank + axis), [0] * (rank - 1 - axis)
    parts = [b.integers(before), b.add("unsqueeze", more, b.integers([0])), *([b.integers(after)] if after else [])]
    return b.add("pad", x, b.add("concat", *parts, axis=0), mode="constant")
