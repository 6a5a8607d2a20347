"""Elements by position: brackets, gather, scatter, embedding, and writing in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.compat.torch import dtypes
from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.functions.arithmetic import as_tensor, cast
from weft.compat.torch.functions.reduction import axis_of
from weft.compat.torch.functions.shape import ints, reshape, transpose
from weft.compat.torch.recording import emit
from weft.compat.torch.state import current
from weft.compat.torch.tensor import Tensor

FARTHEST = 2**62


def _plain(index: Any) -> tuple[Any, ...]:
    """The index as a tuple without lists: lists of numbers are tensors."""
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(Tensor(np.asarray(part)) if isinstance(part, list | np.ndarray) else part for part in parts)


def index_(input: Tensor, index: Any) -> Tensor:
    """input[index]: ints, slices, None, `...`, and tensors of integers or bools."""
    parts = _plain(index)
    if current() is None and input.array is not None and not any(isinstance(part, Tensor) for part in parts):
        try:
            return Tensor(np.asarray(input.array[parts]))
        except IndexError as error:
            raise IndexError(f"{error} (index {index!r} of a tensor of shape {list(input.shape)})") from None
    return _index(input, parts)


@tensor_function
def _index(x: Tensor, parts: tuple[Any, ...]) -> Tensor:
    x, chosen = _basic(x, parts)
    if not chosen:
        return x
    if len(chosen) == 1:
        (axis, index), *_ = chosen.items()
        if index.dtype is dtypes.bool_:
            if axis or index.ndim > x.ndim:
                raise IndexError("a mask must come first and have no more axes than the tensor")
            return emit("gather_nd", x, transpose(emit("non_zero", index), 0, 1), batch_dims=0)
        return emit("gather", x, index, axis=axis)
    return _several(x, chosen)


def _basic(x: Tensor, parts: tuple[Any, ...]) -> tuple[Tensor, dict[int, Tensor]]:
    """`x` with the ints, slices and None applied, and the tensors among the indices by axis of what is left."""
    taken = sum(map(_axes_taken, parts))
    if taken > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    if not any(part is Ellipsis for part in parts):
        parts = (*parts, Ellipsis)
    ranges: list[tuple[int, int, int, int]] = []  # axis, begin, end, step
    shape: list[int] = []
    chosen: dict[int, Tensor] = {}
    axis = 0
    for part in parts:
        axes = x.ndim - taken if part is Ellipsis else _axes_taken(part)
        if _is_list(part):
            chosen[len(shape)] = part
        if part is None:
            shape.append(1)
        elif isinstance(part, slice):
            begin, end, step = _range(part, x.shape[axis])
            shape.append(len(range(begin, end, step)))
            ranges.append((axis, begin, end, step))
        elif part is Ellipsis or _is_list(part):
            shape.extend(x.shape[axis : axis + axes])
        else:
            at = _position(int(part), axis, x.shape[axis])
            ranges.append((axis, at, at + 1, 1))
        axis += axes
    if ranges:
        which, begins, ends, steps = (ints(column) for column in zip(*ranges, strict=True))
        x = emit("slice", x, begins, ends, which, steps)
    return (x if tuple(x.shape) == tuple(shape) else reshape(x, shape)), chosen


def _is_list(part: Any) -> bool:
    """Whether a part of an index is a tensor that chooses several entries."""
    return isinstance(part, Tensor) and bool(part.ndim or part.dtype is dtypes.bool_)


def _axes_taken(part: Any) -> int:
    """How many axes of the tensor a part of an index speaks of; `...` counts as none."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Tensor) and part.dtype is dtypes.bool_ else 1


def _range(part: slice, length: int) -> tuple[int, int, int]:
    begin, end, step = part.indices(length)
    if step < 1:
        raise ValueError("step must be greater than zero")
    return begin, max(begin, end), step


def _position(at: int, axis: int, length: int) -> int:
    if not -length <= at < length:
        raise IndexError(f"index {at} is out of bounds for dimension {axis} with size {length}")
    return at % length


def _several(x: Tensor, chosen: dict[int, Tensor]) -> Tensor:
    """x[a, b, ...] with integer tensors on the first axes, which broadcast together."""
    if list(chosen) != list(range(len(chosen))) or any(i.dtype is dtypes.bool_ for i in chosen.values()):
        raise NotImplementedError("several tensors as indices: weft takes integers on the first axes; use gather")
    shape = np.broadcast_shapes(*(tuple(index.shape) for index in chosen.values()))
    columns = [emit("expand", cast(index, dtypes.int64), ints(shape)) for index in chosen.values()]
    columns = [reshape(column, (*shape, 1)) for column in columns]
    return emit("gather_nd", x, emit("concat", *columns, axis=len(shape)), batch_dims=0)


@tensor_function
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries along `dim` at the positions `index` [n]."""
    return emit("gather", input, index, axis=axis_of(input, dim))


@tensor_function
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """result[i, j] = input[index[i, j], j] for dim 0."""
    return emit("gather_elements", input, index, axis=axis_of(input, dim))


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
    return emit("expand", cast(as_tensor(src), x.dtype), ints(index.shape))


@tensor_function
def nonzero(input: Tensor) -> Tensor:
    """The positions of the elements that are not 0, [count, axes]."""
    return transpose(emit("non_zero", input), 0, 1)


@tensor_function
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, [count]."""
    shape = ints(np.broadcast_shapes(tuple(input.shape), tuple(mask.shape)))
    return _index(emit("expand", input, shape), (emit("expand", mask, shape),))


@tensor_function
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of weight [n, width] at `input`. `padding_idx` matters for training alone."""
    return emit("gather", weight, input, axis=0)


@tensor_function
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each position of `tensor`, 0 elsewhere, along a new last axis."""
    depth = int(tensor.numpy().max()) + 1 if num_classes == -1 else num_classes
    return emit("one_hot", tensor, np.asarray([depth], np.int64), ints([0, 1]), axis=-1)


def _writable(x: Tensor) -> Any:
    if current() is not None:
        raise NotImplementedError(
            "writing into a tensor inside a script: weft's scripts compute new tensors; "
            "write x = x + y, torch.where, torch.scatter or torch.cat instead"
        )
    array = x.numpy()
    if not array.flags.writeable:
        raise RuntimeError("this tensor is read-only, as the array it was made of is; write to x.clone()")
    return array


def set_index(input: Tensor, index: Any, value: Any) -> None:
    """input[index] = value, outside scripts."""
    parts = tuple(part.numpy() if isinstance(part, Tensor) else part for part in _plain(index))
    _writable(input)[parts] = value.numpy() if isinstance(value, Tensor) else value


def copy_(input: Tensor, src: Any) -> Tensor:
    """Write `src` into the tensor's memory, outside scripts."""
    np.copyto(_writable(input), src.numpy() if isinstance(src, Tensor) else src, casting="same_kind")
    return input


def fill_(input: Tensor, value: Any) -> Tensor:
    """Write one number everywhere, outside scripts."""
    _writable(input)[...] = value
    return input


def zero_(input: Tensor) -> Tensor:
    """Write 0 everywhere, outside scripts."""
    return fill_(input, 0)
