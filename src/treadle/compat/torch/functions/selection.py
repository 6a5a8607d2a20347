"""Selection by index tensors: gather, scatter, embedding; and the positions of nonzero elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import where
from treadle.compat.torch.functions.axes import at_least_1d, axis_of, restore_rank
from treadle.compat.torch.functions.promotion import Operand, as_tensor, cast
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.functions.shape import ints, transpose
from treadle.compat.torch.overflow import checked_scalar
from treadle.compat.torch.recording import emit, emit_many
from treadle.compat.torch.tensor import Tensor


@tensor_function
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Returns the entries along `dim` at the positions `index` [n]."""
    if not input.ndim and index.numel() != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)")
    return restore_rank(emit("gather", at_least_1d(input), at_least_1d(index), axis=axis_of(input, dim)), input)


@tensor_function
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Returns result[i, j] = input[index[i, j], j] for dim 0."""
    return restore_rank(
        emit("gather_elements", at_least_1d(input), at_least_1d(index), axis=axis_of(input, dim)), index
    )


take_along_dim = of_op("take_along_dim", lambda input, indices, dim=None: (input, indices, dim))


@tensor_function
def scatter(input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """Returns a copy of input with result[index[i, j], j] = src[i, j] for dim 0."""
    return emit(
        "scatter_elements", input, index, _source(input, index, src), axis=axis_of(input, dim), reduction="none"
    )


@tensor_function
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Adds src to a copy of input at the positions that scatter writes."""
    return emit("scatter_elements", input, index, _source(input, index, src), axis=axis_of(input, dim), reduction="add")


def _source(x: Tensor, index: Tensor, src: Any) -> Tensor:
    if isinstance(src, Tensor):
        return src
    source = cast(src, x.dtype) if isinstance(src, Tensor) else as_tensor(checked_scalar(src, x.dtype))
    return emit("expand", source, ints(index.shape))


@tensor_function
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Returns the positions of nonzero elements, [count, axes]; with `as_tuple` a tensor [count] for each axis."""
    found = transpose(emit("counted", *emit_many("non_zero", input, outputs=2), axis=1), 0, 1)
    return tuple(column(found, axis) for axis in range(input.ndim)) if as_tuple else found


@tensor_function
def column(places: Tensor, axis: int) -> Tensor:
    """Returns one column of positions [count, axes]."""
    return emit("gather", places, np.asarray(axis, np.int64), axis=1)


def where_(condition: Tensor, *values: Operand, **named: Operand) -> Any:
    """Does the same as `where`.

    For a condition alone, returns the positions of its nonzero elements, a tensor for each axis.
    """
    if values or named:
        return where(condition, *values, **named)
    return nonzero(condition, as_tuple=True)


def argwhere(input: Tensor) -> Tensor:
    """Returns the positions of nonzero elements, [count, axes]."""
    found: Tensor = nonzero(input)
    return found


@tensor_function
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Returns the rows of weight [n, width] at `input`. `padding_idx` matters for training only."""
    return emit("gather", weight, input, axis=0)


def embedding_of_weight(weight: Tensor, indices: Tensor, padding_idx: int = -1) -> Tensor:
    """Returns the rows of weight [n, width] at `indices`. `padding_idx` matters for training only."""
    return embedding(indices, weight, padding_idx)


@tensor_function
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Returns 1 at each position that `tensor` names, 0 elsewhere, along a new last axis."""
    depth = int(tensor.numpy().max()) + 1 if num_classes == -1 else num_classes
    return emit("one_hot", tensor, np.asarray([depth], np.int64), ints([0, 1]), axis=-1)
