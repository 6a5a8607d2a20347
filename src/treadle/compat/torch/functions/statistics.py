"""Counts, medians, histograms, and searches in sorted tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import ne
from treadle.compat.torch.functions.axes import Dims, at_least_1d, axis_of, require_elements
from treadle.compat.torch.functions.indexing import index_
from treadle.compat.torch.functions.promotion import as_tensor
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


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Returns the distinct elements in order; optionally their indices by element, and their counts."""
    found = np.unique(input.numpy(), return_inverse=True, return_counts=True)
    parts = [Tensor(found[0])]
    if return_inverse:
        parts.append(Tensor(found[1].reshape(input.shape)))
    if return_counts:
        parts.append(Tensor(found[2]))
    return parts[0] if len(parts) == 1 else tuple(parts)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Returns how often each number occurs."""
    return Tensor(np.bincount(input.numpy(), None if weights is None else weights.numpy(), minlength))


def searchsorted(sorted_sequence: Tensor, values: Any, *, right: bool = False) -> Tensor:
    """Returns the position of each value in a sorted vector."""
    return Tensor(np.searchsorted(sorted_sequence.numpy(), as_tensor(values).numpy(), "right" if right else "left"))


def bucketize(input: Any, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """Returns the index of the bucket between boundaries of each element."""
    return searchsorted(boundaries, input, right=right)
