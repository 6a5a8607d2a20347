"""Embedding bags, and sums over groups of rows that an index names."""

from __future__ import annotations

import math

import numpy as np

from weft import dtypes
from weft.dtypes import DType
from weft.frontends.faults import Fault, Unsupported
from weft.frontends.torch.build import Builder
from weft.frontends.torch.rules.rule import Rule
from weft.graph.value import Value

_SUM, _MEAN, _MAX = range(3)


def embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,  # noqa: ARG001 - matters for training alone
    mode: int = _SUM,
    sparse: bool = False,  # noqa: ARG001 - likewise
    sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding: int | None = None,
) -> list[Value | None]:
    """Sum, mean or maximum of the rows of `weight` [rows, width] in each bag; bags begin at `offsets` in `indices` [n].

    Bags of one known size, which indices [bags, size] have, are an axis; others are added up row by row.
    """
    if b.rank(indices) != 1:
        raise Fault(f"embedding_bag takes indices of one axis here, got the shape {list(b.shape(indices))}")
    dtype, (count,) = weight.known_dtype, b.shape(indices)
    bags = b.shape(offsets)[0] - int(include_last_offset)
    rows = b.add("gather", weight, indices, axis=0)
    if sample_weights is not None:
        rows = b.add("mul", rows, b.reshape(sample_weights, [count, 1]))
    kept = None
    if padding is not None and padding >= 0:
        kept = b.reshape(b.add("ne", indices, b.scalar(padding, indices.known_dtype)), [count, 1])
        rows = b.add("where", kept, rows, b.scalar(-math.inf if mode == _MAX else 0, dtype))
    size = _even(offsets, bags, count)
    ones = b.full(1, dtype, (count, 1)) if kept is None else b.cast(kept, dtype)
    if size:
        grouped = b.reshape(rows, [bags, size, -1])
        result = b.reduce("reduce_max" if mode == _MAX else "reduce_sum", grouped, (1,))
        members = b.reduce("reduce_sum", b.reshape(ones, [bags, size, 1]), (1,))
    else:
        bag = b.reshape(_bags(b, offsets, bags, count), [count, 1])
        result = _grouped(b, rows, bag, bags, "max" if mode == _MAX else "add")
        members = _grouped(b, ones, bag, bags, "add")
    if mode == _MEAN:
        result = b.add("div", result, b.add("max", members, b.scalar(1, dtype)))
    if mode == _MAX:
        empty = b.add("eq", members, b.scalar(0, dtype))
        result = b.add("where", empty, b.scalar(0, dtype), result)
    return [result, None, None, None]


def _even(offsets: Value, bags: int, count: int) -> int:
    """How many entries each bag has, where that is known and the same for all; else 0."""
    if offsets.data is None or not bags or count % bags:
        return 0
    size = count // bags
    return size if np.array_equal(offsets.data[:bags], np.arange(bags) * size) else 0


def _bags(b: Builder, offsets: Value, bags: int, count: int) -> Value:
    """The number of the bag of each entry: how many bags began, less one."""
    begins = b.reshape(b.cast(offsets, dtypes.i64), [-1])
    begins = b.slice(begins, 0, 0, bags)
    begun = b.full(0, dtypes.i64, (count + 1,))
    ones = b.full(1, dtypes.i64, (bags,))
    marks = b.add("scatter_elements", begun, begins, ones, axis=0, reduction="add")
    numbers = b.add("cumsum", marks, axis=0, exclusive=False, reverse=False)
    return b.add("sub", b.slice(numbers, 0, 0, count), b.scalar(1, dtypes.i64))


def _grouped(b: Builder, rows: Value, group: Value, groups: int, reduction: str) -> Value:
    """rows [n, width] added up (or their maximum) in the groups [n, 1] -> [groups, width]."""
    start = b.full(-math.inf if reduction == "max" else 0, rows.known_dtype, (groups, b.shape(rows)[1]))
    return b.add("scatter_nd", start, group, rows, reduction=reduction)


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def scatter_reduce(
    b: Builder, x: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    """x with the entries of `src` that `index` sends to a place reduced there, with x's own or without."""
    if reduce not in _REDUCTIONS:
        raise Fault(f"reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}")
    dtype, axis = x.known_dtype, b.axis(x, dim)
    if not dtype.is_float:
        raise Unsupported(f"scatter_reduce of {dtype}; cast it to float32")
    for at, size in enumerate(b.shape(index)):
        src = b.slice(src, at, 0, size)
    start = x
    if not include_self:
        neutral = {"prod": 1.0, "amax": -math.inf, "amin": math.inf}.get(reduce, 0.0)
        first = b.full(neutral, dtype, b.shape(index))
        start = b.add("scatter_elements", x, index, first, axis=axis, reduction="none")
    found = b.add("scatter_elements", start, index, src, axis=axis, reduction=_REDUCTIONS[reduce])
    if reduce != "mean":
        return found
    ones = b.full(1, dtype, b.shape(index))
    members = b.full(1 if include_self else 0, dtype, b.shape(x))
    members = b.add("scatter_elements", members, index, ones, axis=axis, reduction="add")
    return b.add("div", found, b.add("max", members, b.scalar(1, dtype)))


def cumulative(op: str, neutral: float) -> Rule:
    """A rule for products and extremes of all elements up to each: log2(n) steps, each as far as twice the one before."""

    def rule(b: Builder, x: Value, dim: int, dtype: DType | None = None) -> Value:
        wide = x if dtype is None else b.cast(x, dtype)
        if not b.rank(x):
            return wide
        axis, shape = b.axis(x, dim), list(b.shape(x))
        step = 1
        while step < shape[axis]:
            head = [*shape[:axis], step, *shape[axis + 1 :]]
            start = b.expand(b.scalar(neutral, wide.known_dtype), head)
            moved = b.add("concat", start, b.slice(wide, axis, 0, shape[axis] - step), axis=axis)
            wide = b.add(op, wide, moved)
            step *= 2
        return wide

    return rule
