"""In-place forms of functions: methods ending in `_`, augmented assignment, `inplace=` and `out=`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions import creation
from treadle.compat.torch.functions.arithmetic import add, mul
from treadle.compat.torch.functions.writing import copy_
from treadle.compat.torch.tensor import Tensor


def write_into(target: Tensor, result: Tensor) -> Tensor:
    """Writes `result` into `target` and returns it. Raises RuntimeError if dtype or shape do not fit."""
    if result.dtype.category > target.dtype.category:
        names = [dtypes.SCALARS[each.dtype.name] for each in (result, target)]
        raise RuntimeError(f"result type {names[0]} can't be cast to the desired output type {names[1]}")
    if result.shape != target.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    return copy_(target, result)


def with_inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns `function` with an argument `inplace`, which writes the result into the input."""

    @wraps(function)
    def call(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        result = function(input, *args, **kwargs)
        return write_into(input, result) if inplace else result

    return call


def with_out(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns `function` with an argument `out`, a tensor to write the result into."""

    @wraps(function)
    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        return result if out is None else write_into(out, result)

    return call


def in_place(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """Returns the method `x.name_(...)` for `x.name(...)`."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return write_into(input, function(input, *args, **kwargs))

    method.__name__ = f"{name}_"
    method.__doc__ = f"x.{name}(...), written into x."
    return method


def uniform_(input: Tensor, a: float = 0, b: float = 1) -> Tensor:
    """Fills the tensor with random numbers in [a, b)."""
    return copy_(input, add(mul(creation.rand(*input.shape, dtype=input.dtype), b - a), a))


def normal_(input: Tensor, mean: float = 0, std: float = 1) -> Tensor:
    """Fills the tensor with normally distributed random numbers."""
    return copy_(input, add(mul(creation.randn(*input.shape, dtype=input.dtype), std), mean))


NAMES = (
    "abs add addcdiv addcmul addmm baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max "
    "clamp_min clip cos cumsum div divide eq erf exp expm1 floor floor_divide fmod ge gt index_add index_copy "
    "index_fill le lerp log log10 log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill mul "
    "multiply ne neg negative pow reciprocal relu remainder round rsqrt scatter scatter_add sigmoid sign sin sinh "
    "sqrt square sub subtract tan tanh tril triu true_divide trunc"
)
"""The functions that also have an in-place method."""
