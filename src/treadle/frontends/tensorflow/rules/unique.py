"""Unique: the elements of a vector without repetition, in the order in which they appear."""

from __future__ import annotations

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import DtypeError
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.kinds import Shape, Value
from treadle.frontends.unique_groups import UNSORTED, unique_groups


def unique(e: Emitter, x: Value, axis: Shape | None = None, out_idx: DType = dtypes.i32) -> list[Value]:
    """Return the elements of x [n] without repetition, and which of them each element is. A NaN equals nothing."""
    found, places, _ = unique_with_counts(e, x, axis, out_idx)
    return [found, places]


def unique_with_counts(e: Emitter, x: Value, axis: Shape | None = None, out_idx: DType = dtypes.i32) -> list[Value]:
    """Return what unique() does, and how often each element is there.

    Raises DtypeError for elements without an order, ValueError for other ranks and axes.
    """
    if x.dtype in UNSORTED:
        raise DtypeError(f"unique: wanted integers, float32 or float64, got {x.dtype}")
    e.expect_rank(x, 1)
    if e.rank(x) != 1 or (axis is not None and e.numbers(axis) not in ([], [0], [-1])):
        raise ValueError(f"unique: wanted a vector, got shape {list(e.shape(x))}")
    found, _, inverse, counts = unique_groups(e, x, keep_order=True, nans_are_equal=False)
    vector = (None,)
    results = [found, e.cast(inverse, out_idx), e.cast(counts, out_idx)]
    return [e.described(results[0], lambda: vector), results[1], e.described(results[2], lambda: vector)]


def unique_elements(e: Emitter, x: Value, out_idx: DType = dtypes.i32) -> list[Value]:
    """Return the elements of x [n] without repetition, and which of them each element is. A NaN equals nothing."""
    return unique(e, x, None, out_idx)


def counted_elements(e: Emitter, x: Value, out_idx: DType = dtypes.i32) -> list[Value]:
    """Return what `unique` does, and how often each element is there."""
    return unique_with_counts(e, x, None, out_idx)
