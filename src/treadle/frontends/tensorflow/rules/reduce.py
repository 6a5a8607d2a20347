"""Reductions along axes, and indices of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError
from treadle.frontends.tensorflow.emitter import Emitter, integer
from treadle.frontends.tensorflow.rules.kinds import DType, Same, Value
from treadle.graph.dim import is_expression

Axes = int | Sequence[int] | None


def axes_of(axis: Any) -> tuple[int, ...] | None:
    """An axis, several, or all (None), as core reductions take them."""
    return None if axis is None else tuple(int(number) for number in np.atleast_1d(axis))


def is_open_axis(axis: Any) -> bool:
    """Return whether an axis, or one of several, is not known."""
    return axis is not None and any(map(is_expression, np.atleast_1d(axis).tolist()))


def reduction(op: str) -> Callable[..., Any]:
    """The rule of a reduction that is the core op `op`."""

    def rule(e: Emitter, input_tensor: Same, axis: Axes = None, keepdims: bool = False) -> Value:
        return reduced(e, op, input_tensor, axis, keepdims=keepdims)

    return rule


def reduced(e: Emitter, op: str, value: Value, axis: Axes, *, keepdims: bool) -> Value:
    """Reduce along `axis`. Over all axes the result has none, whatever the rank of `value` is."""
    if is_open_axis(axis):
        return e.unknown(value.known_dtype, [None] * e.rank(value) if keepdims else None)
    found = e.add(op, value, axes=axes_of(axis), keepdims=bool(keepdims))
    return e.described(found, lambda: _dims(axis, keepdims=keepdims))


def _dims(axis: Axes, *, keepdims: bool) -> list[int | None] | None:
    """Return the shape of a reduction of a tensor of unknown rank."""
    return [] if axis is None and not keepdims else None


def reduce_mean(e: Emitter, input_tensor: Same, axis: Axes = None, keepdims: bool = False) -> Value:
    """Return the mean; of no elements NaN, or 0 for integers."""
    if input_tensor.shape is None and not input_tensor.known_dtype.is_float:
        return e.unknown(input_tensor.known_dtype, _dims(axis, keepdims=keepdims))
    of_nothing = not input_tensor.known_dtype.is_float and 0 in e.shape(input_tensor)
    op = "reduce_sum" if of_nothing else "reduce_mean"
    return reduced(e, op, input_tensor, axis, keepdims=keepdims)


def logical(op: str) -> Callable[..., Any]:
    """The rule of reduce_all and reduce_any, by the core reduction `op` of integers; True and False of no elements."""

    def rule(e: Emitter, input_tensor: Same, axis: Axes = None, keepdims: bool = False) -> Value:
        number = e.cast(input_tensor, dtypes.i32)
        found = reduced(e, op, number, axis, keepdims=keepdims)
        return e.add("gt", found, e.scalar(0, number))

    return rule


def reduce_logsumexp(e: Emitter, input_tensor: Same, axis: Axes = None, keepdims: bool = False) -> Value:
    """Return m + log(sum(exp(x - m))), where m is the largest x, or 0 where that is infinite."""
    most = e.add("reduce_max", input_tensor, axes=axes_of(axis), keepdims=True)
    shift = e.add("where", e.add("isinf", most), e.scalar(0, input_tensor), most)
    powers = e.add("exp", e.add("sub", input_tensor, shift))
    total = e.add("log", e.add("reduce_sum", powers, axes=axes_of(axis), keepdims=True))
    found = e.add("add", total, shift)
    return found if keepdims else reduced(e, "reduce_sum", found, axis, keepdims=False)


def reduce_variance(e: Emitter, input_tensor: Same, axis: Axes = None, keepdims: bool = False) -> Value:
    if not input_tensor.known_dtype.is_float:
        raise DtypeError(f"reduce_variance: wanted floating-point numbers, got {input_tensor.known_dtype}")
    mean = e.add("reduce_mean", input_tensor, axes=axes_of(axis), keepdims=True)
    away = e.add("sub", input_tensor, mean)
    return reduced(e, "reduce_mean", e.add("mul", away, away), axis, keepdims=keepdims)


def reduce_std(e: Emitter, input_tensor: Same, axis: Axes = None, keepdims: bool = False) -> Value:
    return e.add("sqrt", reduce_variance(e, input_tensor, axis, keepdims))


def norm(e: Emitter, tensor: Same, ord: Any = "euclidean", axis: Axes = None, keepdims: bool = False) -> Value:
    """Return the Euclidean norm ("euclidean" or 2), the sum of magnitudes (1), or the largest magnitude (inf).

    Over two axes these are norms of matrices: the Frobenius norm ("euclidean" or "fro"), or the largest sum of
    magnitudes of a column (1) or a row (inf). Raises ValueError for other norms and more axes.
    """
    axes = axes_of(axis)
    if axes is not None and len(axes) > 1:
        return _matrix_norm(e, tensor, ord, axes, bool(keepdims))
    if ord == np.inf:
        return reduced(e, "reduce_max", e.add("abs", tensor), axis, keepdims=keepdims)
    if ord in (1, "1"):
        return reduced(e, "reduce_sum", e.add("abs", tensor), axis, keepdims=keepdims)
    if ord not in ("euclidean", 2):
        raise ValueError(f"norm: wanted ord='euclidean', 2, 1 or inf, got {ord!r}")
    squares = e.add("mul", tensor, tensor)
    return e.add("sqrt", reduced(e, "reduce_sum", squares, axis, keepdims=keepdims))


def _matrix_norm(e: Emitter, tensor: Value, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Value:
    if len(axes) != 2 or ord not in ("euclidean", "fro", 1, np.inf):
        raise ValueError(f"norm: of matrices, wanted 2 axes and ord='euclidean', 'fro', 1 or inf, got {axes}, {ord!r}")
    if ord in ("euclidean", "fro"):
        squares = e.add("reduce_sum", e.add("mul", tensor, tensor), axes=axes, keepdims=keepdims)
        return e.add("sqrt", squares)
    inner, outer = axes if ord == 1 else axes[::-1]
    sums = e.add("reduce_sum", e.add("abs", tensor), axes=(inner,), keepdims=True)
    most = e.add("reduce_max", sums, axes=(outer,), keepdims=True)
    return most if keepdims else e.add("squeeze", most, e.integers(axes))


def count_nonzero(
    e: Emitter, input: Same, axis: Axes = None, keepdims: bool = False, dtype: DType = dtypes.i64
) -> Value:
    """Return the number of elements that are not 0, or of strings that are not empty."""
    kind = input.known_dtype
    if kind is dtypes.boolean:
        nonzero = e.cast(input, dtypes.boolean)
    else:
        zero = e.constant(np.array(b"", object)) if kind is dtypes.string else e.scalar(0, input)
        nonzero = e.add("ne", input, zero)
    return reduced(e, "reduce_sum", e.cast(nonzero, dtype), axis, keepdims=keepdims)


def clip_by_norm(e: Emitter, t: Same, clip_norm: Same, axes: Axes = None) -> Value:
    """Scale `t` down to the Euclidean norm clip_norm where it is larger."""
    squares = e.add("reduce_sum", e.add("mul", t, t), axes=axes_of(axes), keepdims=True)
    return e.add("div", e.add("mul", t, clip_norm), e.add("max", e.add("sqrt", squares), clip_norm))


def moments(e: Emitter, x: Same, axes: Axes, keepdims: bool = False) -> list[Value]:
    """Return mean and variance."""
    mean = e.add("reduce_mean", x, axes=axes_of(axes), keepdims=bool(keepdims))
    return [mean, reduce_variance(e, x, axes, keepdims)]


def arg_reduce(op: str) -> Callable[..., Any]:
    """The rule of argmax and argmin."""

    def rule(e: Emitter, input: Same, axis: int | None = None, output_type: DType = dtypes.i64) -> Value:
        if is_open_axis(axis):
            return e.unknown(output_type, [None] * (e.rank(input) - 1))
        at = e.axis(input, 0 if axis is None else int(axis))
        return e.cast(e.add(op, input, axis=at, keepdims=False, last=False), output_type)

    return rule


def cumsum(e: Emitter, x: Same, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Value:
    return e.add("cumsum", x, axis=e.axis(x, int(axis)), exclusive=exclusive, reverse=reverse)


def top_k(e: Emitter, input: Same, k: int = 1, sorted: bool = True, index_type: DType = dtypes.i32) -> list[Value]:
    """Return the k largest elements along the last axis, and their indices. Raises ValueError if there are fewer."""
    if not 0 <= integer(k) <= (e.shape(input) or (-1,))[-1]:
        raise ValueError(f"top_k: wanted k from 0 to the last size of {list(e.shape(input))}, got {k}")
    values, indices = e.add_many(
        "top_k", [input, e.integers([integer(k)])], 2, axis=e.rank(input) - 1, largest=True, sorted=bool(sorted)
    )
    return [values, e.cast(indices, index_type)]
