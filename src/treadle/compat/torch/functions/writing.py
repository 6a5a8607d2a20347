"""Writes into a tensor's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.promotion import as_tensor, cast
from treadle.compat.torch.functions.shape import expand, reshape
from treadle.compat.torch.overflow import checked_scalar
from treadle.compat.torch.recording import needs_sizes
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor
from treadle.ops.op import Array


def compute_sizes(*operands: Any) -> None:
    """Computes what is pending if a size or number among `operands` is not known yet: writes need them."""
    recording = current()
    if recording is not None and recording.has_open_sizes and needs_sizes(recording, operands):
        recording.compute_sizes()


def copy_(input: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes `src` into the tensor, converted to its dtype. Raises RuntimeError if shapes or a number do not fit."""
    compute_sizes(input, src)
    if isinstance(src, bool | int | float | np.generic):
        src = checked_scalar(src, input.dtype, input.numel())
    source = as_tensor(src)
    recording = current()
    if recording is None:
        array = _memory(input)
        _fits(input, source)
        with np.errstate(invalid="ignore"):
            np.copyto(array, source.numpy(), casting="unsafe")
        return input
    _fits(input, source)
    recording.memory.write(recording, input, _copy_of(source, input))
    return input


def _memory(x: Tensor) -> Array:
    """Returns the array of `x` for writing. Raises RuntimeError if it is read-only."""
    array = x.numpy()
    if array.flags.writeable:
        return array
    if 0 in array.strides:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    raise RuntimeError("this tensor is read-only, as the array it was made of is; write to x.clone()")


@tensor_function
def _copy_of(source: Tensor, like: Tensor) -> Tensor:
    narrow = source if source.ndim <= like.ndim else reshape(source, source.shape[source.ndim - like.ndim :])
    return expand(cast(narrow, like.dtype), like.shape)


def _fits(target: Tensor, source: Tensor) -> None:
    have, want = tuple(source.shape), tuple(target.shape)
    extra = len(have) - len(want)
    if extra > 0 and not any(size != 1 for size in have[:extra]):
        have = have[extra:]
    at = len(want) - len(have)
    if at < 0:
        raise RuntimeError(
            f"expand(torch.FloatTensor{{{list(source.shape)}}}, size={list(want)}): the number of sizes provided "
            f"({len(want)}) must be greater or equal to the number of dimensions in the tensor ({source.ndim})"
        )
    for axis, size in enumerate(have):
        if size != want[at + axis] and size != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({want[at + axis]}) must match the existing size ({size}) at "
                f"non-singleton dimension {at + axis}.  Target sizes: {list(want)}.  Tensor sizes: {list(source.shape)}"
            )


def fill_(input: Tensor, value: Any) -> Tensor:
    """Fills the tensor with one number."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return copy_(input, value)


def zero_(input: Tensor) -> Tensor:
    """Fills the tensor with 0."""
    return copy_(input, 0)
