"""Histograms, modes, and positions in sorted sequences."""

from __future__ import annotations

import math

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.create import arange
from treadle.frontends.torch.rules.reduce import sort
from treadle.frontends.torch.rules.rule import Operand, value_of
from treadle.graph.value import Value


def searchsorted(
    b: Builder,
    sorted_sequence: Value,
    values: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """Returns where `values` belong in `sorted_sequence`, which has its order by `sorter` if that is given."""
    if side not in (None, "left", "right") or (side == "left" and right):
        raise Fault(f"side must be 'left' or 'right' and agree with right={right}, got {side!r}")
    sequence = sorted_sequence if sorter is None else b.add("gather_elements", sorted_sequence, sorter, axis=-1)
    wanted = values if isinstance(values, Value) else value_of(b, values, sequence.known_dtype)
    if wanted.dtype != sequence.dtype:
        raise Fault(f"the sequence and the values must have one dtype, got {sequence.dtype} and {wanted.dtype}")
    found = b.add("search_sorted", sequence, wanted, right=right or side == "right")
    return b.cast(found, dtypes.i32) if out_int32 else found


def bucketize(b: Builder, values: Operand, boundaries: Value, out_int32: bool = False, right: bool = False) -> Value:
    return searchsorted(b, boundaries, values, out_int32, right)


def histc(b: Builder, x: Value, bins: int = 100, min_: float = 0, max_: float = 0) -> Value:
    """Returns how many elements lie in each of `bins` parts of [min, max]; others are not counted."""
    dtype = x.known_dtype
    if not dtype.is_float:
        raise Fault(f"histc of {dtype} is not defined; cast to a float first")
    if bins < 1 or not (math.isfinite(min_) and math.isfinite(max_) and min_ <= max_):
        raise Fault(f"bins must be positive and min <= max be finite, got bins={bins}, min={min_}, max={max_}")
    if min_ == max_:
        raise Unsupported("its range is that of its elements; give min and max")
    flat = b.reshape(x, [-1])
    low, high = b.scalar(min_, dtype), b.scalar(max_, dtype)
    is_inside = b.add("and", b.add("ge", flat, low), b.add("le", flat, high))
    place = b.add("mul", b.add("sub", flat, low), b.scalar(bins, dtype))
    place = b.cast(b.add("div", place, b.add("sub", high, low)), dtypes.i64)
    place = b.add("min", place, b.scalar(bins - 1, dtypes.i64))
    counted = b.add("where", is_inside, place, b.scalar(bins, dtypes.i64))
    return b.slice(_counts(b, b.full(0, dtype, (bins + 1,)), counted, b.full(1, dtype, b.shape(flat))), 0, 0, bins)


def bincount(b: Builder, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """Returns how often each number from 0 on occurs in `x`, or the sums of its `weights`. Fails for negative numbers.

    Its size depends on data: the largest number and one more, at least `minlength`.
    """
    if not x.known_dtype.is_integer or b.rank(x) != 1:
        raise Fault(f"bincount takes integers of one axis, got {x.dtype} of {b.rank(x)}")
    wide = b.cast(x, dtypes.i64)
    most = b.add("add", b.reduce("reduce_max", wide, (0,), keepdims=False), b.scalar(1, dtypes.i64))
    size = b.add("max", most, b.scalar(minlength, dtypes.i64))
    # Places beyond all others make the kernel fail; negative ones would count from the end.
    is_negative = b.add("lt", wide, b.scalar(0, dtypes.i64))
    places = b.add("where", is_negative, size, wide)
    if weights is None:
        amounts = b.full(1, dtypes.i64, b.shape(x))
    else:
        amounts = weights if weights.known_dtype == dtypes.f32 else b.cast(weights, dtypes.f64)
    zero, one = b.scalar(0, dtypes.i64), b.scalar(1, dtypes.i64)
    nothing = b.add("mul", b.add("range", zero, size, one), zero)
    return _counts(b, b.cast(nothing, amounts.known_dtype), places, amounts)


def _counts(b: Builder, nothing: Value, places: Value, amounts: Value) -> Value:
    return b.add("scatter_elements", nothing, places, amounts, axis=0, reduction="add")


def mode(b: Builder, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """Returns the most frequent element along `dim`, the least of several, and where its last one is."""
    if not b.rank(x):
        return [x, b.scalar(0, dtypes.i64)]
    axis = b.axis(x, dim)
    size = b.shape(x)[axis]
    values, indices = sort(b, x, axis)
    places = b.reshape(arange(b, size), [size if at == axis else 1 for at in range(b.rank(x))])
    before = b.add("concat", b.slice(values, axis, 0, 1), b.slice(values, axis, 0, size - 1), axis=axis)
    begins = b.add("where", b.add("ne", values, before), places, b.scalar(0, dtypes.i64))
    begins = b.add("cummax", begins, axis=axis, exclusive=False, reverse=False)
    longest = b.add("argmax", b.add("sub", places, begins), axis=axis, keepdims=True, last=False)
    found = [b.add("gather_elements", each, longest, axis=axis) for each in (values, indices)]
    kept = [extent for at, extent in enumerate(b.shape(found[0])) if keepdim or at != axis]
    return [b.reshape(each, kept) for each in found]


def repeat_interleave(
    b: Builder, x: Value, repeats: Value, dim: int | None = None, output_size: int | None = None
) -> Value:
    """Returns `x` with each entry along `dim` as often as `repeats` says; without `dim`, of all elements."""
    whole = b.reshape(x, [-1]) if dim is None else x
    axis = 0 if dim is None else b.axis(x, dim)
    if b.rank(repeats) and b.shape(repeats)[0] == 1:
        repeats = b.reshape(repeats, [])
    if not b.rank(repeats):
        repeats = b.expand(repeats, [b.shape(whole)[axis]])
    return b.add("gather", whole, interleaved(b, repeats, output_size), axis=axis)


def interleaved(b: Builder, repeats: Value, output_size: int | None = None) -> Value:
    """Returns each number from 0 on as often as `repeats` says. The size depends on data unless it is given."""
    ends = b.add("cumsum", b.cast(repeats, dtypes.i64), axis=0, exclusive=False, reverse=False)
    if output_size is None:
        total = b.reduce("reduce_sum", b.cast(repeats, dtypes.i64), (0,), keepdims=False)
        places = b.add("range", b.scalar(0, dtypes.i64), total, b.scalar(1, dtypes.i64))
    else:
        places = arange(b, output_size)
    return b.add("search_sorted", ends, places, right=True)
