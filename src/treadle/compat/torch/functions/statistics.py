"""Counts, medians, histograms, and searches in sorted tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import ne
from treadle.compat.torch.functions.axes import Dims, at_least_1d, axis_of, require_elements
from treadle.compat.torch.functions.indexing import index_
from treadle.compat.torch.functions.reduction import Extreme, amax, amin, mean, sort, std, sum_, var
from treadle.compat.torch.functions.rule import apply_rule
from treadle.compat.torch.functions.shape import unsqueeze
from treadle.compat.torch.tensor import Tensor


@tensor_function
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Returns the number of nonzero elements."""
    return sum_(ne(input, 0), dim)


@tensor_function
def var_mean(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, **options: Any) -> Any:
    """Returns the variance and the mean."""
    return var(input, dim, unbiased, keepdim, **options), mean(input, dim, keepdim)


@tensor_function
def std_mean(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, **options: Any) -> Any:
    """Returns the standard deviation and the mean."""
    return std(input, dim, unbiased, keepdim, **options), mean(input, dim, keepdim)


@tensor_function
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the smallest and the largest element."""
    if not isinstance(dim, int | None):
        raise TypeError(f"aminmax(): argument 'dim' must be int, not {type(dim).__name__}")
    require_elements("aminmax", input, dim)
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


@tensor_function
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the middle element (the lower of two), or NaN if there is one; along `dim`, also its index."""
    if dim is None:
        return apply_rule("median", (input,))
    require_elements("median", input, dim)
    return Extreme(*apply_rule("median.dim", (input, axis_of(input, dim), keepdim)))


@tensor_function
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Extreme:
    """Returns the k-th smallest element along `dim`, counted from 1, and its index."""
    axis, x = axis_of(input, dim), at_least_1d(input)
    if not 1 <= k <= x.shape[axis]:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(axis))
    before = (slice(None),) * axis
    found = [index_(each, (*before, k - 1)) for each in sort(x, axis)]
    return Extreme(*(unsqueeze(each, axis) for each in found)) if keepdim and input.ndim else Extreme(*found)


@tensor_function
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Returns the distinct elements in order; optionally their indices by element, and their counts."""
    several = apply_rule("_unique2", (input, sorted, return_inverse, return_counts))
    kept = [each for each, wanted in zip(several, (True, return_inverse, return_counts), strict=True) if wanted]
    return kept[0] if len(kept) == 1 else tuple(kept)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Returns how often each number occurs."""
    return Tensor(np.bincount(input.numpy(), None if weights is None else weights.numpy(), minlength))


@tensor_function
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Returns where values belong in sorted sequences: one for all, or one for each row of values."""
    found: Tensor = apply_rule("searchsorted", (sorted_sequence, input, out_int32, right, side, sorter))
    return found


@tensor_function
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Returns the index of the bucket between boundaries of each element."""
    found: Tensor = apply_rule("bucketize", (input, boundaries, out_int32, right))
    return found


@tensor_function
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Extreme:
    """Returns the most frequent element along `dim`, the least of several, and the index of its last one."""
    require_elements("mode", input, axis_of(input, dim))
    return Extreme(*apply_rule("mode", (input, dim, keepdim)))


def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Returns the q-quantiles of all elements, or of those along `dim`; NaN where there is one among them.

    Args:
        input: A tensor of float32 or float64.
        q: Numbers from 0 to 1: one, or a vector [n], for which results are stacked along a new first axis.
        dim: The axis; None for all elements.
        keepdim: Whether the axis stays, with size 1.
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest": what to take between two elements.

    Raises:
        RuntimeError: A dtype, a `q` or an `interpolation` that PyTorch refuses, or no elements.
    """
    x = input.numpy()
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if interpolation not in (*_BETWEEN, *_ROUNDED):
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    parts = q.numpy() if isinstance(q, Tensor) else np.asarray(q, x.dtype)
    if isinstance(q, Tensor) and q.dtype is not input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if parts.ndim > 1 or not ((parts >= 0) & (parts <= 1)).all():
        raise RuntimeError("quantile() q values must be in the range [0, 1], as a number or a vector")
    if not x.size:
        raise RuntimeError("quantile() input tensor must be non-empty")
    axis = axis_of(input, dim) if dim is not None else 0
    rows = np.sort(np.moveaxis(x, axis, -1) if dim is not None and input.ndim else x.reshape(-1), axis=-1)
    ranks = parts.reshape(-1) * np.asarray(rows.shape[-1] - 1, x.dtype)
    if interpolation in _ROUNDED:
        found = rows[..., _ROUNDED[interpolation](ranks).astype(np.int64)]
    else:
        below, above = np.floor(ranks), np.ceil(ranks)
        low, high = (rows[..., each.astype(np.int64)] for each in (below, above))
        weight = ranks - below if interpolation == "linear" else 0.5
        with np.errstate(invalid="ignore"):  # infinities
            found = np.where(weight < 0.5, low + weight * (high - low), high - (high - low) * (1 - weight))
    found = np.where(np.isnan(rows[..., -1:]), np.asarray(np.nan, x.dtype), found).astype(x.dtype)
    found = np.moveaxis(found, -1, 0)
    if keepdim:
        found = found.reshape(-1, *(1,) * input.ndim) if dim is None else np.expand_dims(found, 1 + axis)
    return Tensor(np.array(found if parts.ndim else found[0], order="C"))


_BETWEEN = ("linear", "midpoint")
_ROUNDED: dict[str, Callable[[Any], Any]] = {"lower": np.floor, "higher": np.ceil, "nearest": np.round}
"""Interpolations that take an element itself: which of the two next to a rank."""


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Returns how many elements fall into each of `bins` equal parts of [min, max]; others are not counted.

    With `min` and `max` equal the parts are those of the elements' own range.

    Raises:
        RuntimeError: No bins, or a range that is not finite or goes backwards.
        NotImplementedError: Elements that are no floats.
    """
    x = input.numpy().reshape(-1)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{dtypes.SCALARS[input.dtype.name]}'")
    if bins <= 0:
        raise RuntimeError(f"torch.histc(): bins must be > 0, but got {bins}")
    low, high = np.asarray(min, x.dtype), np.asarray(max, x.dtype)
    if low == high and x.size:
        low, high = x.min(), x.max()
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc(): range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc(): max must be larger than min")
    inside = x[(x >= low) & (x <= high)]
    at = np.minimum(((inside - low) / (high - low) * np.asarray(bins, x.dtype)).astype(np.int64), bins - 1)
    return Tensor(np.bincount(at, minlength=bins).astype(x.dtype))
