"""Axes as PyTorch numbers them: negative ones count from the end, and a tensor of rank 0 has one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor

Dims = int | Sequence[int] | None


def axis_of(x: Tensor, dim: int) -> int:
    """Returns `dim` counted from the front. Raises IndexError if `x` has no such axis."""
    rank = max(1, x.ndim)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def axes_of(x: Tensor, dim: Dims) -> tuple[int, ...] | None:
    """Returns the axes to reduce; None means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return None
    return tuple(sorted(axis_of(x, d) for d in ([dim] if isinstance(dim, int) else dim)))


def at_least_1d(x: Tensor) -> Tensor:
    """Returns `x`, reshaped to [1] if its rank is 0."""
    return x if x.ndim else emit("reshape", x, np.asarray([1], np.int64), allowzero=False)


def restore_rank(found: Tensor, x: Tensor) -> Tensor:
    """Returns `found`, computed from at_least_1d(x), reshaped to rank 0 if `x` has rank 0."""
    return found if x.ndim else emit("reshape", found, np.zeros(0, np.int64), allowzero=False)


def require_elements(name: str, x: Tensor, dim: Dims) -> None:
    """Raises RuntimeError or IndexError if an axis to reduce is empty, so that it has no extreme."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        if not x.numel():
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        return
    for each in [dim] if isinstance(dim, int) else dim:
        if x.ndim and not x.shape[axis_of(x, each)]:
            raise IndexError(f"{name}(): Expected reduction dim {each} to have non-zero size.")
