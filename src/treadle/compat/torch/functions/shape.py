"""Views, permutations, concatenation and splitting.

Outside scripts views share memory with their operand, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import require_tensor, tensor_function
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.functions.axes import axis_of
from treadle.compat.torch.functions.promotion import common
from treadle.compat.torch.memory import Step
from treadle.compat.torch.recording import emit
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor
from treadle.dtypes import i64
from treadle.graph.dim import is_expression
from treadle.graph.shape import is_open
from treadle.ops.op import Array


def ints(values: Sequence[int]) -> Array | Tensor:
    """Returns numbers as an int64 operand: a constant, unless some are expressions of sizes."""
    given = list(values)
    if any(map(is_expression, given)):
        return emit("sizes", elements=tuple(given), shape=(len(given),), dtype=i64)
    return np.asarray(given, np.int64)


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Returns the sizes of `f(2, 3)` and of `f((2, 3))` alike."""
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    return tuple(size if is_expression(size) else int(size) for size in given)


def view_function(
    view: Callable[..., Array], back: Callable[..., Tensor]
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Decorates a function whose result is a view.

    Outside recordings it returns `view` of the array; inside, it emits ops. `back(base, new, ...)` returns the base
    with the view's new value written into it.
    """

    def decorate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        recorded = tensor_function(function)

        @wraps(function)
        def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if not isinstance(input, Tensor):
                require_tensor(function.__name__, "input", (input,), {})
            recording = current()
            if recording is None and input.array is not None:
                return Tensor(view(input, input.array, *args, **kwargs))
            result = recorded(input, *args, **kwargs)
            if recording is not None:
                step = Step(
                    lambda base: call(base, *args, **kwargs),
                    lambda array: view(Tensor(array), array, *args, **kwargs),
                    lambda base, new: back(base, new, *args, **kwargs),
                )
                recording.memory.share(recording, result, input, step)
            return result

        return call

    return decorate


def _reshaped_back(base: Tensor, new: Tensor, *shape: Any) -> Tensor:
    return reshape(new, base.shape)


def _permuted_back(base: Tensor, new: Tensor, *dims: Any) -> Tensor:
    perm = [axis_of(base, dim) for dim in sizes(dims)]
    return permute(new, [perm.index(axis) for axis in range(len(perm))])


def _expanded_back(base: Tensor, new: Tensor, *shape: Any) -> Tensor:
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )


def full_shape(x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """Returns `shape` with -1 replaced by the size it stands for.

    Raises RuntimeError if x has another number of elements. Expressions are left to the op.
    """
    count = x.numel()
    if is_open((count, *shape)):
        return tuple(shape)
    known = math.prod(size for size in shape if size != -1)
    found = tuple(count // max(1, known) if size == -1 else size for size in shape)
    if list(shape).count(-1) > 1 or math.prod(found) != count:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return found


@view_function(lambda x, array, *shape: array.reshape(full_shape(x, sizes(shape))), _reshaped_back)
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """Returns the elements in another shape; one size may be -1."""
    return emit("reshape", input, ints(full_shape(input, sizes(shape))), allowzero=True)


def view(input: Tensor, *shape: Any) -> Tensor:
    """Returns a view of the memory in another shape, or as another dtype.

    Raises RuntimeError where that needs a copy.
    """
    if len(shape) == 1 and isinstance(shape[0], dtype):
        return Tensor(input.numpy().view(shape[0].numpy))
    result = reshape(input, *shape)
    if current() is None and input.numel() and not np.may_share_memory(input.numpy(), result.numpy()):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return result


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """Returns a view in the shape of another tensor."""
    return reshape(input, other.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merges the axes from `start_dim` to `end_dim` into one."""
    if not input.ndim:
        return reshape(input, 1)
    first, last = axis_of(input, start_dim), axis_of(input, end_dim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    middle = math.prod(input.shape[first : last + 1])
    return reshape(input, (*input.shape[:first], middle, *input.shape[last + 1 :]))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Splits one axis into several."""
    axis = axis_of(input, dim)
    if not input.ndim:
        raise RuntimeError("unflatten: a tensor without axes has none that could become several")
    size, given = input.shape[axis], [int(each) for each in sizes]
    rest = int(np.prod([each for each in given if each != -1], dtype=np.int64))
    if given.count(-1) == 1 and rest and not size % rest:
        given[given.index(-1)] = size // rest
    elif rest != size or -1 in given:
        raise RuntimeError(
            f"unflatten: Provided sizes {given} don't multiply up to the size of dim {axis} ({size}) "
            "in the input tensor"
        )
    return reshape(input, (*input.shape[:axis], *given, *input.shape[axis + 1 :]))


def _perm(x: Tensor, dims: tuple[Any, ...]) -> tuple[int, ...]:
    perm = tuple(axis_of(x, dim) for dim in sizes(dims))
    if len(perm) != x.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {x.ndim} is not equal to len(dims) = {len(perm)}"
        )
    if len(set(perm)) != x.ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return perm


@view_function(lambda x, array, *dims: array.transpose(_perm(x, dims)), _permuted_back)
def permute(input: Tensor, *dims: Any) -> Tensor:
    """Reorders the axes."""
    return emit("transpose", input, perm=_perm(input, dims))


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two axes."""
    perm = list(range(input.ndim))
    a, b = axis_of(input, dim0), axis_of(input, dim1)
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return permute(input, perm)


def t(input: Tensor) -> Tensor:
    """Returns the transposed matrix."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1) if input.ndim == 2 else input


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Removes axes of length 1: all, or those in `dim`."""
    if dim is None:
        return reshape(input, [size for size in input.shape if size != 1])
    axes = [axis_of(input, each) for each in ([dim] if isinstance(dim, int) else dim)]
    return reshape(input, [size for at, size in enumerate(input.shape) if at not in axes or size != 1])


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Inserts an axis of length 1 at `dim`."""
    if not -input.ndim - 1 <= dim <= input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim - 1}, {input.ndim}], but got {dim})"
        )
    at = dim % (input.ndim + 1)
    return reshape(input, (*input.shape[:at], 1, *input.shape[at:]))


def expanded(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the sizes of `x` expanded to `shape`, where -1 keeps a size.

    Raises RuntimeError if it cannot be expanded.
    """
    lead = len(shape) - x.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({x.ndim})"
        )
    for axis, size in enumerate(shape):
        have = x.shape[axis - lead] if axis >= lead else 1
        if size is not have and size not in (-1, have) and have != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({have}) at non-singleton "
                f"dimension {axis}.  Target sizes: {list(shape)}.  Tensor sizes: {list(x.shape)}"
            )
    return tuple(x.shape[at - lead] if size == -1 else size for at, size in enumerate(shape))


@view_function(lambda x, array, *shape: np.broadcast_to(array, expanded(x, sizes(shape))), _expanded_back)
def expand(input: Tensor, *shape: Any) -> Tensor:
    """Repeats axes of length 1 without a copy; -1 keeps a size."""
    return emit("expand", input, ints(expanded(input, sizes(shape))))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expands to the shape of `other`."""
    return expand(input, other.shape)


@tensor_function
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """Repeats the tensor along each axis."""
    counts = sizes(repeats)
    lead = (1,) * (len(counts) - input.ndim)
    return emit("tile", reshape(input, (*lead, *input.shape)), ints(counts))


@tensor_function
def contiguous(input: Tensor) -> Tensor:
    """Returns the tensor in row-major memory; itself if it is so already."""
    return input if input.is_contiguous() else Tensor(np.ascontiguousarray(input.numpy()))


@tensor_function
def _copied(input: Tensor) -> Tensor:
    return emit("identity", input)


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Returns a copy."""
    return Tensor(input.numpy().copy()) if current() is None else _copied(input)


@tensor_function
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenates tensors along `dim`, in their promoted dtype."""
    if not len(tensors):
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    operands, _ = common(*tensors)
    # PyTorch skips tensors of shape [0].
    if any(each.ndim != operands[0].ndim for each in operands) or not -2 < dim < 1:
        operands = [each for each in operands if each.shape != (0,)] or operands
    first = operands[0]
    has_axis = first.ndim != 1 or -2 < dim < 1 or first.shape != (0,)
    return emit("concat", *operands, axis=axis_of(first, dim) if has_axis else 0)


@tensor_function
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Stacks tensors of one shape along a new axis."""
    if not len(tensors):
        raise RuntimeError("stack expects a non-empty TensorList")
    for index, each in enumerate(tensors):
        if each.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 "
                f"and {list(each.shape)} at entry {index}"
            )
    return cat([unsqueeze(each, dim) for each in tensors], dim)


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Splits into pieces of a size (the last may be smaller), or of the given sizes."""
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = axis_of(tensor, dim)
    length, given = tensor.shape[axis], split_size_or_sections
    if isinstance(given, int):
        if given < 0 or (length and not given):
            raise RuntimeError(
                f"split_size must be positive, or 0 where dimension {axis} has size 0; got {given} for size {length}"
            )
        pieces = [min(given, length - at) for at in range(0, length, max(1, given))] or [0]
    else:
        pieces = list(given)
    if sum(pieces) != length or min(pieces, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {length} "
            f"(input tensor's size at dimension {dim}), but got split_sizes={pieces}"
        )
    starts = np.cumsum([0, *pieces])
    return tuple(narrow(tensor, axis, int(start), size) for start, size in zip(starts, pieces, strict=False))


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Splits into at most `chunks` pieces of equal size; the last may be smaller."""
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    length = input.shape[axis_of(input, dim)]
    return split(input, -(-length // chunks) if length else [0] * chunks, dim)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Returns `length` entries along `dim`, from `start` on."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = axis_of(input, dim)
    size = input.shape[axis]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return input[(*(slice(None),) * axis, slice(start, start + length))]


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Returns one entry along `dim`, without that axis."""
    return input[(*(slice(None),) * axis_of(input, dim), index)]


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Returns all entries along `dim`."""
    axis = axis_of(input, dim)
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return tuple(select(input, axis, index) for index in range(input.shape[axis]))


@tensor_function
def flip(input: Tensor, *axes_: Any, dims: Any = None) -> Tensor:
    """Reverses axes."""
    axes = [axis_of(input, dim) for dim in sizes(axes_ if dims is None else (dims,))]
    if not input.ndim:
        return emit("identity", input)
    ends = [-(2**62)] * len(axes)
    return emit("slice", input, ints([-1] * len(axes)), ints(ends), ints(axes), ints([-1] * len(axes)))


def _triangle(name: str, *, upper: bool) -> Callable[..., Tensor]:
    def function(input: Tensor, diagonal: int = 0) -> Tensor:
        return emit("trilu", input, np.asarray(diagonal, np.int64), upper=upper)

    function.__name__ = name
    function.__doc__ = f"Returns the {'upper' if upper else 'lower'} triangle of matrices [.., n, m], and 0 elsewhere."
    return tensor_function(function)


tril, triu = _triangle("tril", upper=False), _triangle("triu", upper=True)
