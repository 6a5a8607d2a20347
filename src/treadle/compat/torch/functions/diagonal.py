"""Diagonals of matrices."""

from __future__ import annotations

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions.arithmetic import where
from treadle.compat.torch.functions.axes import axis_of
from treadle.compat.torch.functions.indexing import index_
from treadle.compat.torch.functions.reduction import sum_
from treadle.compat.torch.functions.shape import cat, expand, permute, unsqueeze
from treadle.compat.torch.tensor import Tensor


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Returns the elements [i, i + offset] of two axes, as the last axis.

    The result is a copy: writing to it does not change `input`.
    """
    a, b = axis_of(input, dim1), axis_of(input, dim2)
    moved = permute(input, [a, b, *(axis for axis in range(input.ndim) if axis not in (a, b))])
    rows, columns = input.shape[a], input.shape[b]
    count = max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    places = [Tensor(np.arange(count) + start) for start in (max(0, -offset), max(0, offset))]
    found = index_(moved, tuple(places))
    return permute(found, [*range(1, found.ndim), 0])


def diag(input: Tensor, diagonal_: int = 0) -> Tensor:
    """Returns the diagonal of a matrix, or the matrix of a diagonal."""
    if input.ndim == 2:
        return diagonal(input, diagonal_)
    if input.ndim != 1:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    width = input.shape[0] + abs(diagonal_)
    mask = Tensor(np.eye(width, width, diagonal_, dtype=bool))
    rows = unsqueeze(input, 1) if diagonal_ >= 0 else unsqueeze(input, 0)
    if diagonal_:
        pad = Tensor(np.zeros(abs(diagonal_), input.dtype.numpy))
        rows = unsqueeze(cat([input, pad]), 1 if diagonal_ > 0 else 0)
    return where(mask, expand(rows, width, width), Tensor(np.zeros((), input.dtype.numpy)))


def trace(input: Tensor) -> Tensor:
    """Returns the sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return sum_(diagonal(input))
