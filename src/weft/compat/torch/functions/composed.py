"""Functions that are a few others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.compat.torch import dtypes
from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.dtypes import dtype as DType  # noqa: N812
from weft.compat.torch.functions.activation import softmax, tanh
from weft.compat.torch.functions.arithmetic import (
    abs_,
    add,
    as_tensor,
    clamp,
    div,
    eq,
    erf,
    exp,
    gt,
    isnan,
    le,
    log,
    logical_and,
    logical_or,
    lt,
    mul,
    ne,
    pow_,
    sqrt,
    sub,
    trunc,
    where,
)
from weft.compat.torch.functions.indexing import index_, nonzero
from weft.compat.torch.functions.reduction import (
    Dims,
    Extreme,
    amax,
    amin,
    axis_of,
    mean,
    sort,
    std,
    sum_,
    var,
)
from weft.compat.torch.functions.shape import (
    cat,
    expand,
    flatten,
    flip,
    permute,
    repeat,
    reshape,
    sizes,
    unsqueeze,
)
from weft.compat.torch.tensor import Tensor


@tensor_function
def frac(input: Tensor) -> Tensor:
    """What follows the point."""
    return sub(input, trunc(input))


@tensor_function
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input^2 + other^2)."""
    return sqrt(add(mul(input, input), mul(other, other)))


@tensor_function
def erfc(input: Tensor) -> Tensor:
    """1 - erf(input)."""
    return sub(1, erf(input))


@tensor_function
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
    high = where(gt(input, other), input, other)
    return add(high, log(add(1, exp(sub(0, abs_(sub(input, other)))))))


@tensor_function
def asinh(input: Tensor) -> Tensor:
    """The inverse of sinh."""
    size = abs_(input)
    found = log(add(size, sqrt(add(mul(size, size), 1))))
    return where(lt(input, 0), sub(0, found), found)


@tensor_function
def acosh(input: Tensor) -> Tensor:
    """The inverse of cosh."""
    return log(add(input, sqrt(sub(mul(input, input), 1))))


@tensor_function
def atanh(input: Tensor) -> Tensor:
    """The inverse of tanh."""
    return mul(log(div(add(1, input), sub(1, input))), 0.5)


@tensor_function
def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """With numbers in place of NaN and the infinities: the largest ones unless others are given."""
    if not input.dtype.is_floating_point:
        return input
    limits = dtypes.finfo(input.dtype)
    found = where(isnan(input), nan, input)
    found = where(eq(found, math.inf), limits.max if posinf is None else posinf, found)
    return where(eq(found, -math.inf), limits.min if neginf is None else neginf, found)


@tensor_function
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol |other|."""
    near = logical_or(eq(input, other), le(abs_(sub(input, other)), add(mul(abs_(other), rtol), atol)))
    return logical_or(near, logical_and(isnan(input), isnan(other))) if equal_nan else near


@tensor_function
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are not 0."""
    return sum_(ne(input, 0), dim)


def argwhere(input: Tensor) -> Tensor:
    """The positions of the elements that are not 0, [count, axes]."""
    found: Tensor = nonzero(input)
    return found


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
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


@tensor_function
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower of two; along `dim` with where it is."""
    if dim is None:
        return sort(reshape(input, -1), 0).values[(input.numel() - 1) // 2]
    return kthvalue(input, (input.shape[axis_of(input, dim)] + 1) // 2, dim, keepdim)


@tensor_function
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Extreme:
    """The k-th smallest element along `dim`, counted from 1, and where it is."""
    axis = axis_of(input, dim)
    if not 1 <= k <= input.shape[axis]:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(axis))
    before = (slice(None),) * axis
    found = [index_(each, (*before, k - 1)) for each in sort(input, axis)]
    return Extreme(*(unsqueeze(each, axis) for each in found)) if keepdim else Extreme(*found)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements [i, i + offset] of two axes, as the last axis. A copy: writing to it leaves `input` alone."""
    a, b = axis_of(input, dim1), axis_of(input, dim2)
    moved = permute(input, [a, b, *(axis for axis in range(input.ndim) if axis not in (a, b))])
    rows, columns = input.shape[a], input.shape[b]
    count = max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    places = [Tensor(np.arange(count) + start) for start in (max(0, -offset), max(0, offset))]
    found = index_(moved, tuple(places))
    return permute(found, [*range(1, found.ndim), 0])


def diag(input: Tensor, diagonal_: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix of a diagonal."""
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
    """The sum of the diagonal of a matrix."""
    return sum_(diagonal(input))


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes moved to other places, the rest in order."""
    pair = [[given] if isinstance(given, int) else list(given) for given in (source, destination)]
    origins, targets = ([axis_of(input, dim) for dim in dims] for dims in pair)
    rest = iter(axis for axis in range(input.ndim) if axis not in origins)
    placed = dict(zip(targets, origins, strict=True))
    return permute(input, [placed[axis] if axis in placed else next(rest) for axis in range(input.ndim)])


def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """Axes of length 1 repeated."""
    return expand(input, *size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All of the shape they broadcast to."""
    shape = np.broadcast_shapes(*(tuple(each.shape) for each in tensors))
    return tuple(expand(each, shape) for each in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swapped = indexing == "xy" and len(given) > 1
    order = [given[1], given[0], *given[2:]] if swapped else list(given)
    shape = [each.numel() for each in order]
    grids = [
        expand(reshape(each, [1] * at + [-1] + [1] * (len(order) - at - 1)), shape) for at, each in enumerate(order)
    ]
    return tuple([grids[1], grids[0], *grids[2:]] if swapped else grids)


def atleast_1d(input: Tensor) -> Tensor:
    """At least one axis."""
    return input if input.ndim else reshape(input, 1)


def atleast_2d(input: Tensor) -> Tensor:
    """At least two axes."""
    return input if input.ndim > 1 else reshape(input, (1, -1))


def ravel(input: Tensor) -> Tensor:
    """All axes as one."""
    return flatten(input)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """One beside the other: along the second axis, of vectors the first."""
    whole = [atleast_1d(each) for each in tensors]
    return cat(whole, 0 if whole[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One above the other."""
    return cat([atleast_2d(each) for each in tensors], 0)


def fliplr(input: Tensor) -> Tensor:
    """The second axis in reverse."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """The first axis in reverse."""
    return flip(input, 0)


def tile(input: Tensor, *dims: Any) -> Tensor:
    """Copies along each axis; axes that are not named are kept."""
    counts = sizes(dims)
    return repeat(input, *(1,) * (input.ndim - len(counts)), *counts)


def repeat_interleave(input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each entry along `dim` (None: of the flattened tensor) `repeats` times."""
    counts = repeats.numpy() if isinstance(repeats, Tensor) else repeats
    x, axis = (reshape(input, -1), 0) if dim is None else (input, axis_of(input, dim))
    places = Tensor(np.repeat(np.arange(x.shape[axis]), counts))
    return index_(x, (*(slice(None),) * axis, places))


def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over the last axes of `a` and the first of `b`, or over those named."""
    from weft.compat.torch.functions.matmul import matmul

    if isinstance(dims, int):
        dims = [list(range(a.ndim - dims, a.ndim)), list(range(dims))]
    over = [[axis_of(x, dim) for dim in named] for x, named in ((a, dims[0]), (b, dims[1]))]
    free = [[axis for axis in range(x.ndim) if axis not in named] for x, named in zip((a, b), over, strict=True)]
    shape = [a.shape[axis] for axis in free[0]] + [b.shape[axis] for axis in free[1]]
    inner = int(np.prod([a.shape[axis] for axis in over[0]], dtype=np.int64))
    left = reshape(permute(a, free[0] + over[0]), (-1, inner))
    return reshape(matmul(left, reshape(permute(b, over[1] + free[1]), (inner, -1))), shape)


@tensor_function
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The distances of the rows of x1 [..., n, d] and x2 [..., m, d]."""
    apart = abs_(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)))
    if p == 2:
        return sqrt(sum_(mul(apart, apart), -1))
    return sum_(apart, -1) if p == 1 else amax(apart, -1) if p == math.inf else pow_(sum_(pow_(apart, p), -1), 1 / p)


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


@tensor_function
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`."""
    sizes_ = [clamp(sqrt(sum_(mul(x, x), dim, True)), eps) for x in (x1, x2)]
    return sum_(mul(div(x1, sizes_[0]), div(x2, sizes_[1])), dim)


@tensor_function
def softmin(input: Tensor, dim: int | None = None) -> Tensor:
    """softmax(-input)."""
    return softmax(sub(0, input), dim)


@tensor_function
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input)."""
    return sub(input, tanh(input))


@tensor_function
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input where it is farther from 0 than lambd, else 0."""
    return where(gt(abs_(input), lambd), input, 0)


@tensor_function
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input, nearer to 0 by lambd."""
    return where(gt(input, lambd), sub(input, lambd), where(lt(input, -lambd), add(input, lambd), 0))


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Of the element type of another."""
    from weft.compat.torch.functions.creation import to

    return to(input, other.dtype)


def type_(input: Tensor, dtype: DType | str | None = None) -> Any:
    """The name of the element type, or the tensor as another."""
    from weft.compat.torch.functions.creation import to

    if dtype is None:
        return f"torch.{dtypes.LEGACY[input.dtype.name]}"
    found = next((name for name, old in dtypes.LEGACY.items() if f"torch.{old}" == dtype), None)
    return to(input, dtypes.NAMES[found] if found is not None else dtype)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """In the shape of another."""
    return reshape(input, other.shape)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other: along the third axis."""
    return cat([each if each.ndim > 2 else unsqueeze(atleast_2d(each), 2) for each in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Vectors as the columns of a matrix."""
    return hstack([unsqueeze(each, 1) if each.ndim == 1 else each for each in tensors])


def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """As vstack."""
    return vstack(tensors)
