"""Elements that tensors of positions name: gather, scatter, embedding; and the positions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import where
from treadle.compat.torch.functions.axes import as_before, as_line, axis_of
from treadle.compat.torch.functions.promotion import Operand, as_tensor, cast
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.functions.shape import ints, transpose
from treadle.compat.torch.overflow import stored
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor


@tensor_function
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries along `dim` at the positions `index` [n]."""
    if not input.ndim and index.numel() != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)")
    return as_before(emit("gather", as_line(input), as_line(index), axis=axis_of(input, dim)), input)


@tensor_function
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """result[i, j] = input[index[i, j], j] for dim 0."""
    return as_before(emit("gather_elements", as_line(input), as_line(index), axis=axis_of(input, dim)), index)


take_along_dim = of_op("take_along_dim", lambda input, indices, dim=None: (input, indices, dim))


@tensor_function
def scatter(input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """A copy of input with result[index[i, j], j] = src[i, j] for dim 0."""
    return emit(
        "scatter_elements", input, index, _source(input, index, src), axis=axis_of(input, dim), reduction="none"
    )


@tensor_function
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """As scatter, but what is written is added."""
    return emit("scatter_elements", input, index, _source(input, index, src), axis=axis_of(input, dim), reduction="add")


def _source(x: Tensor, index: Tensor, src: Any) -> Tensor:
    if isinstance(src, Tensor):
        return src
    source = cast(src, x.dtype) if isinstance(src, Tensor) else as_tensor(stored(src, x.dtype))
    return emit("expand", source, ints(index.shape))


@tensor_function
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not 0, [count, axes]; with `as_tuple` a tensor [count] for each axis."""
    found = transpose(emit("non_zero", input), 0, 1)
    return tuple(found[:, axis] for axis in range(input.ndim)) if as_tuple else found


def where_(condition: Tensor, *values: Operand, **named: Operand) -> Any:
    """`where`; of a condition alone, where it holds: a tensor for each axis."""
    if values or named:
        return where(condition, *values, **named)
    return nonzero(condition, as_tuple=True)


def argwhere(input: Tensor) -> Tensor:
    """The positions of the elements that are not 0, [count, axes]."""
    found: Tensor = nonzero(input)
    return found


@tensor_function
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of weight [n, width] at `input`. `padding_idx` matters for training alone."""
    return emit("gather", weight, input, axis=0)


@tensor_function
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each position of `tensor`, 0 elsewhere, along a new last axis."""
    depth = int(tensor.numpy().max()) + 1 if num_classes == -1 else num_classes
    return emit("one_hot", tensor, np.asarray([depth], np.int64), ints([0, 1]), axis=-1)
