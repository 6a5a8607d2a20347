"""Reductions, cumulative ops, sorting, and positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.dtypes import dtype as DType  # noqa: N812
from treadle.compat.torch.functions.arithmetic import (
    add,
    div,
    gt,
    isinf,
    maximum,
    minimum,
    mul,
    ne,
    pow_,
    sqrt,
    sub,
    where,
)
from treadle.compat.torch.functions.axes import Dims, at_least_1d, axes_of, axis_of, require_elements, restore_rank
from treadle.compat.torch.functions.elementary import exp, log
from treadle.compat.torch.functions.promotion import cast
from treadle.compat.torch.functions.rule import apply_rule
from treadle.compat.torch.functions.shape import ints
from treadle.compat.torch.recording import emit, emit_many
from treadle.compat.torch.tensor import Tensor
from treadle.graph.dim import maximum as larger


class Extreme(NamedTuple):
    """Values along an axis and their indices."""

    values: Tensor
    indices: Tensor


def _reduced(op: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    axes = axes_of(x, dim)
    return emit("identity", x) if not x.ndim else emit(op, x, axes=axes, keepdims=keepdim)


def _summable(x: Tensor, to: DType | None) -> Tensor:
    return cast(x, to or (x.dtype if x.dtype.is_floating_point else dtypes.int64))


@tensor_function
def sum_(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Returns the sum over `dim` (None: all axes), as int64 for integers and bools."""
    return _reduced("reduce_sum", _summable(input, dtype), dim, keepdim)


@tensor_function
def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Returns the mean over `dim` (None: all axes). Raises RuntimeError for integers."""
    x = input if dtype is None else cast(input, dtype)
    if not x.dtype.is_floating_point:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype}"
        )
    return _reduced("reduce_mean", x, dim, keepdim)


@tensor_function
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Returns the product over one axis, or all."""
    return _reduced("reduce_prod", _summable(input, dtype), dim, keepdim)


@tensor_function
def amax(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Returns the largest element over `dim`."""
    require_elements("amax", input, dim)
    return _reduced("reduce_max", input, dim, keepdim)


@tensor_function
def amin(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Returns the smallest element over `dim`."""
    require_elements("amin", input, dim)
    return _reduced("reduce_min", input, dim, keepdim)


@tensor_function
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Returns the index of the largest element; with `dim` None, in the flattened tensor."""
    return _arg("argmax", input, dim, keepdim)


@tensor_function
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Returns the index of the smallest element; with `dim` None, in the flattened tensor."""
    return _arg("argmin", input, dim, keepdim)


def _arg(op: str, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None and not x.numel():
        raise IndexError(f"{op}(): Expected reduction dim to be specified for input.numel() == 0.")
    require_elements(op, x, dim)
    if dim is None:
        x, dim, keepdim = emit("reshape", x, np.asarray([-1], np.int64), allowzero=False), 0, False
    return restore_rank(emit(op, at_least_1d(x), axis=axis_of(x, dim), keepdims=keepdim and x.ndim > 0, last=False), x)


def _extreme(name: str, whole: Callable[..., Tensor], two: Callable[..., Tensor]) -> Callable[..., Any]:
    def function(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if isinstance(dim, Tensor):
            dim, other = None, dim
        if other is not None:
            return two(input, other)
        require_elements(name, input, dim)
        if dim is None:
            return whole(input)
        numbers = cast(input, dtypes.uint8) if input.dtype is dtypes.bool_ else input
        return Extreme(whole(input, dim, keepdim), _arg(f"arg{name}", numbers, dim, keepdim))

    function.__name__ = name
    function.__doc__ = (
        f"Returns the {name}imum of all elements, along `dim` with its index, or of each pair of elements."
    )
    return tensor_function(function)


max_, min_ = _extreme("max", amax, maximum), _extreme("min", amin, minimum)


@tensor_function
def var(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    """Returns the variance over `dim`; the divisor is the count minus `correction` (1 unless `unbiased` is False)."""
    over: Dims = None if isinstance(dim, bool) else dim
    unbiased = dim if isinstance(dim, bool) else unbiased
    if not input.dtype.is_floating_point:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    axes = axes_of(input, over)
    over_axes = range(input.ndim) if axes is None or not input.ndim else axes
    count = math.prod(input.shape[a] for a in over_axes)
    less = correction if correction is not None else int(unbiased)
    centered = sub(input, _reduced("reduce_mean", input, over, keepdim=True))
    return div(_reduced("reduce_sum", mul(centered, centered), over, keepdim), larger(count - less, 0))


@tensor_function
def std(input: Tensor, *args: Any, **options: Any) -> Tensor:
    """Returns the square root of `var`."""
    return sqrt(var(input, *args, **options))


@tensor_function
def norm(input: Tensor, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Returns the p-norm: Euclidean for 2 and "fro", the largest magnitude for infinity."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {dtypes.SCALARS[input.dtype.name]}"
        )
    if p in (2, 2.0, "fro"):
        return sqrt(_reduced("reduce_sum", mul(input, input), dim, keepdim))
    size = emit("abs", input)
    if p == 1:
        return _reduced("reduce_sum", size, dim, keepdim)
    if p == float("inf"):
        return _reduced("reduce_max", size, dim, keepdim)
    if p == float("-inf"):
        return _reduced("reduce_min", size, dim, keepdim)
    if p == 0:
        return _reduced("reduce_sum", cast(ne(input, 0), input.dtype), dim, keepdim)
    if not isinstance(p, int | float):
        raise TypeError(f"norm: p must be a number, 'fro' or inf, got {p!r}")
    return pow_(_reduced("reduce_sum", pow_(size, p), dim, keepdim), 1 / p)


@tensor_function
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """Returns log(sum(exp(input))), shifted by the largest element against overflow (by 0 where that is infinite)."""
    x = cast(input, input.dtype if input.dtype.is_floating_point else dtypes.float32)
    largest = _reduced("reduce_max", x, dim, keepdim=True)
    shift = where(isinf(largest), 0, largest)
    rest = log(_reduced("reduce_sum", exp(sub(x, shift)), dim, keepdim))
    return add(rest, shift if keepdim else _reduced("reduce_max", shift, dim, keepdim=False))


@tensor_function
def all_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Returns whether all elements are true; uint8 for uint8."""
    return _any_or_all("reduce_min", input, dim, keepdim)


@tensor_function
def any_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Returns whether any element is true; uint8 for uint8."""
    return _any_or_all("reduce_max", input, dim, keepdim)


def _any_or_all(op: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Computes any ("reduce_max") or all ("reduce_min").

    Unlike other reductions, an empty list of axes reduces none.
    """
    none = dim is not None and not isinstance(dim, int) and len(dim) == 0
    found = _flags(x) if none else _reduced(op, _flags(x), dim, keepdim)
    return cast(gt(found, 0), _flag_type(x))


def _flag_type(x: Tensor) -> DType:
    return dtypes.uint8 if x.dtype is dtypes.uint8 else dtypes.bool_


def _flags(x: Tensor) -> Tensor:
    return cast(x if x.dtype is dtypes.bool_ else ne(x, 0), dtypes.int32)


@tensor_function
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Returns cumulative sums along `dim`."""
    x = at_least_1d(_summable(input, dtype))
    return restore_rank(emit("cumsum", x, axis=axis_of(input, dim), exclusive=False, reverse=False), input)


@tensor_function
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Returns cumulative products along `dim`, as int64 for integers and bools."""
    found: Tensor = apply_rule("cumprod", (_summable(input, dtype), dim))
    return found


@tensor_function
def cummax(input: Tensor, dim: int) -> Extreme:
    """Returns the largest elements so far along `dim`, and where the last of the equal ones is."""
    return Extreme(*apply_rule("cummax", (input, dim)))


@tensor_function
def cummin(input: Tensor, dim: int) -> Extreme:
    """Returns the smallest elements so far along `dim`, and where the last of the equal ones is."""
    return Extreme(*apply_rule("cummin", (input, dim)))


@tensor_function
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Returns the logarithms of the cumulative sums of exponentials along `dim`."""
    found: Tensor = apply_rule("logcumsumexp", (input, dim))
    return found


@tensor_function
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Extreme:
    """Returns the k largest (or smallest) elements along `dim`, in order, and their indices."""
    axis = axis_of(input, dim)
    x = at_least_1d(input)
    if k is not x.shape[axis] and not 0 <= k <= x.shape[axis]:
        raise RuntimeError("selected index k out of range")
    count = ints([k if input.ndim else 1])
    found = emit_many("top_k", x, count, outputs=2, axis=axis, largest=largest, sorted=sorted)
    return Extreme(*(restore_rank(each, input) for each in found))


@tensor_function
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Extreme:
    """Sorts along `dim`; returns the elements and their indices."""
    return topk(input, at_least_1d(input).shape[axis_of(input, dim)], dim, largest=descending)


@tensor_function
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Returns the indices of `sort`."""
    return sort(input, dim, descending).indices
