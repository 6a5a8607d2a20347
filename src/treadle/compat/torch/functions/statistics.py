"""Counts, orders and statistics of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import ne
from treadle.compat.torch.functions.axes import Dims, as_line, axis_of, need_elements
from treadle.compat.torch.functions.indexing import index_
from treadle.compat.torch.functions.promotion import as_tensor
from treadle.compat.torch.functions.reduction import Extreme, amax, amin, mean, sort, std, sum_, var
from treadle.compat.torch.functions.rule import noted
from treadle.compat.torch.functions.shape import unsqueeze
from treadle.compat.torch.tensor import Tensor


@tensor_function
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are not 0."""
    return sum_(ne(input, 0), dim)


@tensor_function
def var_mean(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, **options: Any) -> Any:
    """The variance and the mean."""
    return var(input, dim, unbiased, keepdim, **options), mean(input, dim, keepdim)


@tensor_function
def std_mean(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, **options: Any) -> Any:
    """The standard deviation and the mean."""
    return std(input, dim, unbiased, keepdim, **options), mean(input, dim, keepdim)


@tensor_function
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element."""
    if not isinstance(dim, int | None):
        raise TypeError(f"aminmax(): argument 'dim' must be int, not {type(dim).__name__}")
    need_elements("aminmax", input, dim)
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


@tensor_function
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower of two, or NaN if there is one; along `dim` with where it is."""
    if dim is None:
        return noted("median", (input,))
    need_elements("median", input, dim)
    return Extreme(*noted("median.dim", (input, axis_of(input, dim), keepdim)))


@tensor_function
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Extreme:
    """The k-th smallest element along `dim`, counted from 1, and where it is."""
    axis, x = axis_of(input, dim), as_line(input)
    if not 1 <= k <= x.shape[axis]:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(axis))
    before = (slice(None),) * axis
    found = [index_(each, (*before, k - 1)) for each in sort(x, axis)]
    return Extreme(*(unsqueeze(each, axis) for each in found)) if keepdim and input.ndim else Extreme(*found)


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The different elements in order, where each element went, how often each is there."""
    found = np.unique(input.numpy(), return_inverse=True, return_counts=True)
    parts = [Tensor(found[0])]
    if return_inverse:
        parts.append(Tensor(found[1].reshape(input.shape)))
    if return_counts:
        parts.append(Tensor(found[2]))
    return parts[0] if len(parts) == 1 else tuple(parts)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number is there."""
    return Tensor(np.bincount(input.numpy(), None if weights is None else weights.numpy(), minlength))


def searchsorted(sorted_sequence: Tensor, values: Any, *, right: bool = False) -> Tensor:
    """Where each value would be put into a vector in order."""
    return Tensor(np.searchsorted(sorted_sequence.numpy(), as_tensor(values).numpy(), "right" if right else "left"))


def bucketize(input: Any, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """Between which boundaries each element lies."""
    return searchsorted(boundaries, input, right=right)
