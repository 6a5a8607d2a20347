"""Embedding bags: the rows of a table, reduced over each bag by sum, mean or maximum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.torch.build import Builder
from treadle.graph.value import Value

SUM, MEAN, MAX = range(3)

_FAR = 1 << 60
"""An index that is out of every range."""


def embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,  # noqa: ARG001 - for training only
    mode: int = SUM,
    sparse: bool = False,  # noqa: ARG001 - part of the signature
    sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding: int | None = None,
) -> list[Value | None]:
    """Returns the sum, mean or maximum [bags, width] of the rows of `weight` [rows, width] in each bag.

    Bags begin at `offsets` [bags] in `indices` [n]; with `include_last_offset`, one more offset is the end of the
    last bag. Rows equal to `padding` do not count; an empty bag is 0. Bags of one known size become an axis; others
    are added row by row. Offsets that do not start at 0, decrease, or exceed the indices raise Fault if they are
    known, else KernelError at run time.
    """
    _check(b, weight, indices, offsets)
    dtype, (height, _), (rows,) = weight.known_dtype, b.shape(weight), b.shape(indices)
    if sample_weights is not None and mode != SUM:
        raise Fault("weights per sample need sums")
    if padding is not None and not -height <= padding < height:
        raise Fault(f"padding_idx must be a row of {height}, got {padding}")
    bags = _bags(b, offsets, rows, ends=include_last_offset)
    picked = b.add("gather", weight, indices, axis=0)
    if sample_weights is not None:
        picked = b.add("mul", picked, b.reshape(sample_weights, (rows, 1)))
    counts = bags.lengths
    if padding is not None:
        other = b.add("ne", indices, b.scalar(padding % height, indices.known_dtype))
        kept = b.reshape(other, (rows, 1))
        picked = b.add("where", kept, picked, b.scalar(-math.inf if mode == MAX else 0, dtype))
        counts = bags.fold(b, "sum", b.cast(kept, dtypes.i64))
    if mode == MEAN and counts is None:
        result = bags.fold(b, "mean", picked)
    else:
        result = bags.fold(b, "max" if mode == MAX else "sum", picked)
    if mode != SUM and counts is not None:
        counted, zero = b.cast(b.reshape(counts, (bags.count, 1)), dtype), b.scalar(0, dtype)
        if mode == MEAN:
            result = b.add("div", result, b.add("max", counted, b.scalar(1, dtype)))
        else:
            result = b.add("where", b.add("eq", counted, zero), zero, result)
    return [result, None, None, None]


def _check(b: Builder, weight: Value, indices: Value, offsets: Value) -> None:
    for what, value, rank in (("table", weight, 2), ("indices", indices, 1), ("offsets", offsets, 1)):
        dtype, shape = value.known_dtype, b.shape(value)
        fits = dtype.is_float if value is weight else dtype.is_integer
        if not fits or len(shape) != rank:
            expected = "floats of two axes" if value is weight else "integers of one axis"
            raise Fault(f"{what} must be {expected}, got {dtype} of shape {list(shape)}")


@dataclass(frozen=True, slots=True)
class _Even:
    """`count` bags of `size` rows each."""

    count: int
    size: int
    lengths: None = None

    def fold(self, b: Builder, how: str, rows: Value) -> Value:
        """Returns the rows [n, width] reduced over each bag [count, width]: their sum, mean or maximum."""
        return b.reduce(f"reduce_{how}", b.reshape(rows, (self.count, self.size, b.shape(rows)[1])), (1,))


@dataclass(frozen=True, slots=True)
class _Uneven:
    """`count` bags with `lengths` [count] rows.

    `numbers` [n, 1] are the bags of the rows; rows after the last bag have the number `count`.
    """

    count: int
    lengths: Value
    numbers: Value

    def fold(self, b: Builder, how: str, rows: Value) -> Value:
        """Returns the rows [n, width] reduced over each bag [count, width]: sum or maximum.

        An empty bag is 0, or the least number.
        """
        dtype, width = rows.known_dtype, b.shape(rows)[1]
        blank = b.full(-math.inf if how == "max" else 0, dtype, (self.count + 1, width))
        found = b.add("scatter_nd", blank, self.numbers, rows, reduction="add" if how == "sum" else how)
        return b.slice(found, 0, 0, self.count)


def _bags(b: Builder, offsets: Value, rows: int, *, ends: bool) -> _Even | _Uneven:
    """Returns the bags of `rows` rows. Raises Fault if known offsets are invalid."""
    if ends and b.shape(offsets) == (0,):
        raise Fault("with include_last_offset there must be an offset, got none")
    end = [] if ends else [rows]
    count = b.shape(offsets)[0] + len(end) - 1
    size = 0 if offsets.data is None else _size([*offsets.data.tolist(), *end], rows)
    if size:
        return _Even(count, size)
    edges = b.add("concat", b.cast(offsets, dtypes.i64), b.ints(end), axis=0)
    begins, zero = b.slice(edges, 0, 0, count), b.scalar(0, dtypes.i64)
    lengths = b.add("sub", b.slice(edges, 0, 1, count + 1), begins)
    wrong = b.add("concat", b.add("ne", b.slice(edges, 0, 0, 1), zero), b.add("lt", lengths, zero), axis=0)
    places = b.add("where", wrong, b.scalar(_FAR, dtypes.i64), edges)
    nothing, one = b.full(0, dtypes.i64, (rows + 1,)), b.full(1, dtypes.i64, (count + 1,))
    begun = b.add("scatter_elements", nothing, places, one, axis=0, reduction="add")
    running = b.add("cumsum", b.slice(begun, 0, 0, rows), axis=0, exclusive=False, reverse=False)
    numbers = b.add("sub", running, b.scalar(1, dtypes.i64))
    return _Uneven(count, lengths, b.reshape(numbers, (rows, 1)))


def _size(edges: Sequence[int], rows: int) -> int:
    """Returns the size of each bag if all bags have one size and cover all rows, else 0.

    Raises Fault if offsets are invalid.
    """
    for at, (before, edge) in enumerate(pairwise((0, *edges))):
        if not before <= edge <= (rows if at else 0):
            raise Fault(
                f"offsets must begin at 0 and rise to at most {rows}, the number of indices; number {at} is {edge}"
            )
    lengths = {end - begin for begin, end in pairwise(edges)}
    return lengths.pop() if len(lengths) == 1 and edges[-1] == rows else 0
