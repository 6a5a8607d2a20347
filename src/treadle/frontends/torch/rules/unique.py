"""Elements without repetition."""

from __future__ import annotations

from treadle import dtypes
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.unique_groups import UNSORTED, consecutive_groups, unique_groups
from treadle.graph.value import Value


def unique(
    b: Builder,
    x: Value,
    sorted: bool = True,  # noqa: A002, ARG001 - PyTorch's name; the result has an order either way
    return_inverse: bool = False,  # noqa: ARG001 - results that nobody reads are not computed
    return_counts: bool = False,  # noqa: ARG001
) -> list[Value]:
    """Returns the elements of x in ascending order, which of them each element is, and how often. A NaN equals none."""
    wide = _ordered(b, x)
    found, _, inverse, counts = unique_groups(b, wide, keep_order=False, nans_are_equal=False)
    return [b.cast(found, x.known_dtype), b.reshape(inverse, b.shape(x)), counts]


def unique_dim(
    b: Builder,
    x: Value,
    dim: int,
    sorted: bool = True,  # noqa: A002 - PyTorch's name; the result has an order either way
    return_inverse: bool = False,
    return_counts: bool = False,
) -> list[Value]:
    """Returns what unique() does, along the only axis."""
    b.axis(x, dim)
    if b.rank(x) != 1:
        raise Unsupported("unique along a dimension of several; without `dim` it is of all elements")
    return unique(b, x, sorted, return_inverse, return_counts)


def unique_consecutive(
    b: Builder,
    x: Value,
    return_inverse: bool = False,  # noqa: ARG001 - results that nobody reads are not computed
    return_counts: bool = False,  # noqa: ARG001
    dim: int | None = None,
) -> list[Value]:
    """Returns the first element of each run of equal ones, which run each element is in, and their lengths."""
    if dim is not None and b.rank(x) != 1:
        raise Unsupported("unique_consecutive along a dimension of several; without `dim` it is of all elements")
    found, inverse, counts = consecutive_groups(b, _ordered(b, x))
    return [b.cast(found, x.known_dtype), b.reshape(inverse, b.shape(x)), counts]


def _ordered(b: Builder, x: Value) -> Value:
    """x in a dtype that kernels sort."""
    if x.dtype not in UNSORTED:
        return x
    return b.cast(x, dtypes.f32 if x.known_dtype.is_float else dtypes.i32)
