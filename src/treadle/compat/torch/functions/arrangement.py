"""Rearrangement of elements: concatenation, repetition, reversal, rolling, padding, grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.compat.torch.functions.axes import axis_of
from treadle.compat.torch.functions.indexing import index_
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.functions.shape import (
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
from treadle.compat.torch.tensor import Tensor


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Moves axes to other positions; the others keep their order."""
    pair = [[given] if isinstance(given, int) else list(given) for given in (source, destination)]
    origins, targets = ([axis_of(input, dim) for dim in dims] for dims in pair)
    rest = iter(axis for axis in range(input.ndim) if axis not in origins)
    placed = dict(zip(targets, origins, strict=True))
    return permute(input, [placed[axis] if axis in placed else next(rest) for axis in range(input.ndim)])


def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """Repeats axes of length 1."""
    return expand(input, *size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Expands all tensors to their broadcast shape."""
    shape = np.broadcast_shapes(*(tuple(each.shape) for each in tensors))
    return tuple(expand(each, shape) for each in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Returns grids of coordinates, one for each vector."""
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
    """Adds an axis to tensors of rank 0."""
    return input if input.ndim else reshape(input, 1)


def atleast_2d(input: Tensor) -> Tensor:
    """Adds axes up to rank 2."""
    return input if input.ndim > 1 else reshape(input, (1, -1))


def ravel(input: Tensor) -> Tensor:
    """Flattens all axes into one."""
    return flatten(input)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates along the second axis, vectors along the first."""
    whole = [atleast_1d(each) for each in tensors]
    return cat(whole, 0 if whole[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates along the first axis; vectors become rows."""
    return cat([atleast_2d(each) for each in tensors], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates along the third axis."""
    return cat([each if each.ndim > 2 else unsqueeze(atleast_2d(each), 2) for each in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates along the second axis; vectors become columns."""
    return hstack([unsqueeze(each, 1) if each.ndim == 1 else each for each in tensors])


def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Does the same as vstack."""
    return vstack(tensors)


def fliplr(input: Tensor) -> Tensor:
    """Returns the second axis in reverse."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Returns the first axis in reverse."""
    if not input.ndim:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


def tile(input: Tensor, *dims: Any) -> Tensor:
    """Repeats the tensor along each axis; `dims` are those of the last axes."""
    counts = sizes(dims)
    return repeat(input, *(1,) * (input.ndim - len(counts)), *counts)


def repeat_interleave(input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Repeats each entry along `dim` (None: of the flattened tensor) `repeats` times."""
    if dim is not None and not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    counts = repeats.numpy() if isinstance(repeats, Tensor) else repeats
    x, axis = (reshape(input, -1), 0) if dim is None else (input, axis_of(input, dim))
    places = Tensor(np.repeat(np.arange(x.shape[axis]), counts))
    return index_(x, (*(slice(None),) * axis, places))


def _list(given: Any) -> list[int]:
    return [given] if isinstance(given, int) else [int(each) for each in given]


def _rolled(input: Tensor, shifts: Any, dims: Any = ()) -> tuple[Any, ...]:
    along = _list(dims)
    if along and not input.ndim:
        raise IndexError(f"Dimension specified as {along[0]} but tensor has no dimensions")
    return input, _list(shifts), along


roll = of_op("roll", _rolled)


def _padding(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> tuple[Any, ...]:
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"pad mode {mode!r}: wanted one of constant, reflect, replicate, circular")
    return input, _list(pad), mode, value


pad = of_op("pad", _padding)
