"""Reductions, sorting, and positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.create import arange
from treadle.frontends.torch.rules.elementwise import to_bool
from treadle.frontends.torch.rules.rule import Rule
from treadle.graph.shape import elements
from treadle.graph.value import Value

Dims = int | Sequence[int] | None


def _reduced(b: Builder, op: str, x: Value, dims: Dims, keepdims: bool) -> Value:
    return b.reduce(op, x, b.axes(x, dims) if b.rank(x) else (), keepdims=keepdims)


def _summable(b: Builder, x: Value, to: DType | None) -> Value:
    return b.cast(x, to or (x.known_dtype if x.known_dtype.is_float else dtypes.i64))


def sums(op: str) -> Rule:
    """Returns the rule of sum and prod over all axes, `(x, *, dtype)`."""
    return lambda b, x, dtype=None: _reduced(b, op, _summable(b, x, dtype), None, False)


def sums_over(op: str) -> Rule:
    """Returns the rule of sum and prod over axes, `(x, dims, keepdim, *, dtype)`."""
    return lambda b, x, dims, keepdim=False, dtype=None: _reduced(b, op, _summable(b, x, dtype), dims, keepdim)


def mean(b: Builder, x: Value, dims: Dims = None, keepdim: bool = False, dtype: DType | None = None) -> Value:
    wide = x if dtype is None else b.cast(x, dtype)
    if not wide.known_dtype.is_float:
        raise Fault(f"the mean of {wide.dtype} is not defined; cast to a float first")
    return _reduced(b, "reduce_mean", wide, dims, keepdim)


def mean_of_all(b: Builder, x: Value, dtype: DType | None = None) -> Value:
    return mean(b, x, None, False, dtype)


def extremes(op: str) -> Rule:
    """Returns the rule of amax and amin."""
    return lambda b, x, dims=(), keepdim=False: _reduced(b, op, _number(b, x), dims, keepdim)


def _number(b: Builder, x: Value) -> Value:
    return b.cast(x, dtypes.i32) if x.dtype == dtypes.boolean else x


def extreme_of_all(op: str) -> Rule:
    """Returns the rule of max and min without an axis."""
    return lambda b, x: b.cast(_reduced(b, op, _number(b, x), None, False), x.known_dtype)


def extreme_along(word: str) -> Rule:
    """Returns the rule of max and min along one axis: values and where they are."""

    def rule(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
        values = b.cast(_reduced(b, f"reduce_{word}", _number(b, x), dim, keepdim), x.known_dtype)
        return [values, arg(f"arg{word}")(b, x, dim, keepdim)]

    return rule


def arg(op: str) -> Rule:
    """Returns the rule of argmax and argmin."""

    def rule(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        number = _number(b, x)
        if dim is None:
            found: Value = b.add(op, b.reshape(number, [-1]), axis=0, keepdims=False, last=False)
            return b.reshape(found, [1] * b.rank(x)) if keepdim else found
        if not b.rank(x):
            return b.scalar(0, dtypes.i64)
        return b.add(op, number, axis=b.axis(x, dim), keepdims=keepdim, last=False)

    return rule


def any_or_all(op: str) -> Rule:
    """Returns the rule of any ("reduce_max") and all ("reduce_min").

    Unlike other reductions, an empty list of axes reduces none.
    """

    def rule(b: Builder, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
        if dims is not None and not isinstance(dims, int) and not len(dims):
            return to_bool(b, x)
        found = _reduced(b, op, b.cast(to_bool(b, x), dtypes.i32), dims, keepdim)
        return b.add("gt", found, b.scalar(0, dtypes.i32))

    return rule


def _correction(given: Any) -> float:
    return 1 if given is None else float(given)


def var_of(b: Builder, x: Value, dims: Dims, correction: Any, keepdim: bool) -> Value:
    """Returns the variance; the divisor is the count less `correction`."""
    axes = b.axes(x, dims)
    count = elements(b.shape(x)[axis] for axis in axes)
    differences = b.add("sub", x, b.reduce("reduce_mean", x, axes, keepdims=True))
    total = b.reduce("reduce_sum", b.add("mul", differences, differences), axes, keepdims=keepdim)
    return b.add("div", total, b.scalar(max(0, count - _correction(correction)), x.known_dtype))


def var(b: Builder, x: Value, unbiased: bool = True) -> Value:
    return var_of(b, x, None, int(unbiased), False)


def var_dim(b: Builder, x: Value, dims: Dims, unbiased: bool = True, keepdim: bool = False) -> Value:
    return var_of(b, x, dims, int(unbiased), keepdim)


def var_correction(b: Builder, x: Value, dims: Dims = None, correction: Any = None, keepdim: bool = False) -> Value:
    return var_of(b, x, dims, correction, keepdim)


def root(rule: Rule) -> Rule:
    """Returns the rule of the square root of another's result."""
    return lambda b, *args: b.add("sqrt", rule(b, *args))


def var_mean(b: Builder, x: Value, dims: Dims = None, correction: Any = None, keepdim: bool = False) -> list[Value]:
    return [var_of(b, x, dims, correction, keepdim), mean(b, x, dims, keepdim)]


def norm(b: Builder, x: Value, order: Any = 2, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Returns the norm of order 1, 2, infinity, or any other, over `dims`."""
    wide = x if dtype is None else b.cast(x, dtype)
    p = 2.0 if order is None else float(order)
    if p == 2:
        return b.add("sqrt", _reduced(b, "reduce_sum", b.add("mul", wide, wide), dims, keepdim))
    size = b.add("abs", wide)
    if p in (float("inf"), float("-inf")):
        return _reduced(b, "reduce_max" if p > 0 else "reduce_min", size, dims, keepdim)
    if p == 1:
        return _reduced(b, "reduce_sum", size, dims, keepdim)
    if p == 0:
        counted = b.cast(b.add("ne", wide, b.scalar(0, wide.known_dtype)), wide.known_dtype)
        return _reduced(b, "reduce_sum", counted, dims, keepdim)
    powers = _reduced(b, "reduce_sum", b.add("pow", size, b.scalar(p, wide.known_dtype)), dims, keepdim)
    return b.add("pow", powers, b.scalar(1 / p, wide.known_dtype))


def norm_scalar_opt(b: Builder, x: Value, order: Any, dims: Dims, keepdim: bool = False) -> Value:
    return norm(b, x, order, dims, keepdim)


def logsumexp(b: Builder, x: Value, dims: Dims, keepdim: bool = False) -> Value:
    """Returns m + log(sum exp(x - m)), where m is the largest x (0 if that is infinite)."""
    axes = b.axes(x, dims)
    largest = b.reduce("reduce_max", x, axes, keepdims=True)
    shift = b.add("where", b.add("isinf", largest), b.scalar(0, x.known_dtype), largest)
    total = b.reduce("reduce_sum", b.add("exp", b.add("sub", x, shift)), axes, keepdims=True)
    found = b.add("add", b.add("log", total), shift)
    kept = [size for axis, size in enumerate(b.shape(found)) if keepdim or axis not in axes]
    return b.reshape(found, kept)


def cumulative(op: str) -> Rule:
    """Returns the rule of cumsum and cumprod."""

    def rule(b: Builder, x: Value, dim: int, dtype: DType | None = None) -> Value:
        return _so_far(b, op, _summable(b, x, dtype), dim)

    return rule


def logcumsumexp(b: Builder, x: Value, dim: int) -> Value:
    return _so_far(b, "logcumsumexp", x, dim)


def cumulative_extreme(op: str) -> Rule:
    """Returns the rule of cummax and cummin: values, and where the last of the equal ones is."""

    def rule(b: Builder, x: Value, dim: int) -> list[Value]:
        if not b.rank(x):
            return [x, b.scalar(0, dtypes.i64)]
        axis, number = b.axis(x, dim), _number(b, x)
        found = _so_far(b, op, number, axis)
        is_found = b.add("eq", number, found)
        if x.known_dtype.is_float:
            is_found = b.add("or", is_found, b.add("isnan", x))
        size = b.shape(x)[axis]
        places = b.reshape(arange(b, size), [size if at == axis else 1 for at in range(b.rank(x))])
        indices = _so_far(b, "cummax", b.add("where", is_found, places, b.scalar(0, dtypes.i64)), axis)
        return [b.cast(found, x.known_dtype), indices]

    return rule


def _so_far(b: Builder, op: str, x: Value, dim: int) -> Value:
    return b.add(op, x, axis=b.axis(x, dim), exclusive=False, reverse=False) if b.rank(x) else x


def topk(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> list[Value]:
    axis = b.axis(x, dim)
    if not 0 <= k <= b.shape(x)[axis]:
        raise Fault(f"k is {k}, but axis {axis} has {b.shape(x)[axis]} entries")
    return b.add_many("top_k", [x, b.ints([k])], 2, axis=axis, largest=largest, sorted=sorted_)


def kthvalue(b: Builder, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """Returns the k-th smallest element along `dim` (from 1), and where it is."""
    axis = b.axis(x, dim)
    if not 1 <= k <= b.shape(x)[axis]:
        raise Fault(f"k is {k}, but axis {axis} has {b.shape(x)[axis]} entries")
    found = [b.slice(each, axis, k - 1, k) for each in topk(b, x, k, dim, largest=False)]
    kept = [size for at, size in enumerate(b.shape(found[0])) if keepdim or at != axis]
    return [b.reshape(each, kept) for each in found]


def median(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    """Returns the lower of the middle elements along `dim`, and where it is; the first NaN if there is one."""
    if not b.rank(x):
        return [x, b.scalar(0, dtypes.i64)]
    found = kthvalue(b, x, (b.shape(x)[b.axis(x, dim)] + 1) // 2, dim, keepdim)
    if not x.known_dtype.is_float:
        return found
    unknown = b.cast(b.add("isnan", x), dtypes.i32)
    broken = b.add("gt", _reduced(b, "reduce_max", unknown, dim, keepdim), b.scalar(0, dtypes.i32))
    first = arg("argmax")(b, unknown, dim, keepdim)
    return [
        b.add("where", broken, b.scalar(math.nan, x.known_dtype), found[0]),
        b.add("where", broken, first, found[1]),
    ]


def median_of_all(b: Builder, x: Value) -> Value:
    """Returns the lower of the middle elements; of nothing NaN, or the least integer."""
    dtype = x.known_dtype
    if not elements(b.shape(x)):
        return b.scalar(math.nan if dtype.is_float else np.iinfo(dtype.numpy).min, dtype)
    return median(b, b.reshape(x, [-1]), 0)[0]


def sort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    return topk(b, x, b.shape(x)[b.axis(x, dim)], dim, descending)


def sort_stable(b: Builder, x: Value, stable: object, dim: int = -1, descending: bool = False) -> list[Value]:  # noqa: ARG001
    return sort(b, x, dim, descending)


def argsort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> Value:
    return sort(b, x, dim, descending)[1]
