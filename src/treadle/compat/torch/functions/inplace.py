"""Methods whose names end in `_`, and `+=` and its like: the function, written into the tensor it was called on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions import creation
from treadle.compat.torch.functions.arithmetic import add, mul
from treadle.compat.torch.functions.writing import copy_
from treadle.compat.torch.tensor import Tensor


def written(target: Tensor, result: Tensor) -> Tensor:
    """`target` with the elements of `result`. Raises RuntimeError if it cannot hold them."""
    if result.dtype.category > target.dtype.category:
        names = [dtypes.SCALARS[each.dtype.name] for each in (result, target)]
        raise RuntimeError(f"result type {names[0]} can't be cast to the desired output type {names[1]}")
    if result.shape != target.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    return copy_(target, result)


def perhaps_in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` with the argument `inplace`: whether its result is written into the tensor it is given."""

    @wraps(function)
    def call(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        result = function(input, *args, **kwargs)
        return written(input, result) if inplace else result

    return call


def into_out(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` with the argument `out`: a tensor that its result is written into."""

    @wraps(function)
    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        return result if out is None else written(out, result)

    return call


def in_place(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """`x.name_(...)` of `x.name(...)`."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return written(input, function(input, *args, **kwargs))

    method.__name__ = f"{name}_"
    method.__doc__ = f"x.{name}(...), written into x."
    return method


def uniform_(input: Tensor, a: float = 0, b: float = 1) -> Tensor:
    """Random numbers in [a, b)."""
    return copy_(input, add(mul(creation.rand(*input.shape, dtype=input.dtype), b - a), a))


def normal_(input: Tensor, mean: float = 0, std: float = 1) -> Tensor:
    """Random numbers of a normal distribution."""
    return copy_(input, add(mul(creation.randn(*input.shape, dtype=input.dtype), std), mean))


NAMES = (
    "abs add addcdiv addcmul addmm baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min clip cos "
    "cumsum div divide eq erf exp expm1 floor floor_divide fmod ge gt index_add index_copy index_fill le lerp log log10 "
    "log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill mul multiply ne neg negative pow reciprocal relu "
    "remainder round rsqrt scatter scatter_add sigmoid sign sin sinh sqrt square sub subtract tan tanh tril triu true_divide trunc"
)
"""The functions that have a method with `_` too."""
