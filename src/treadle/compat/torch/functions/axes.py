"""Axes as PyTorch numbers them: negative ones from the end, and one axis for a tensor without axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor

Dims = int | Sequence[int] | None


def axis_of(x: Tensor, dim: int) -> int:
    """`dim` counted from the front. Raises IndexError if `x` does not have it."""
    rank = max(1, x.ndim)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def axes_of(x: Tensor, dim: Dims) -> tuple[int, ...] | None:
    """The axes to reduce; None for all of them."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return None
    return tuple(sorted(axis_of(x, d) for d in ([dim] if isinstance(dim, int) else dim)))


def as_line(x: Tensor) -> Tensor:
    """`x`; a tensor without axes as one of a single entry, which it is where an axis is asked for."""
    return x if x.ndim else emit("reshape", x, np.asarray([1], np.int64), allowzero=False)


def as_before(found: Tensor, x: Tensor) -> Tensor:
    """What was found for as_line(x), without axes again if `x` has none."""
    return found if x.ndim else emit("reshape", found, np.zeros(0, np.int64), allowzero=False)


def need_elements(name: str, x: Tensor, dim: Dims) -> None:
    """Raise RuntimeError or IndexError if an axis to reduce is empty: no element of it is the largest."""
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
