"""Rows of a table, those of each bag summed up, averaged, or their maximum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.compat.torch import dtypes
from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.functions.arithmetic import clamp, div, lt, mul, ne, sub, where
from weft.compat.torch.functions.indexing import embedding
from weft.compat.torch.functions.reduction import amax, mean, sum_
from weft.compat.torch.functions.shape import ints, reshape, unsqueeze
from weft.compat.torch.recording import emit
from weft.compat.torch.tensor import Tensor

_FAR = 1 << 60
"""An index out of every range."""


@tensor_function
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The bags [bags, width] of rows of weight [rows, width]: `input` [bags, size], or [n] with the `offsets` [bags] at which
    bags begin (and where the last one ends, with `include_last_offset`).

    Rows number `padding_idx` count for nothing; a bag of no others is 0. Raises ValueError for other shapes and modes.
    """
    if max_norm is not None:
        raise NotImplementedError("embedding_bag: max_norm writes into the table; scale its rows beforehand")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights is only supported for mode='sum' (got {mode!r})"
            )
        if per_sample_weights.shape != input.shape:
            wanted, got = tuple(input.shape), tuple(per_sample_weights.shape)
            raise ValueError(f"embedding_bag: per_sample_weights must have the shape of the input {wanted}, got {got}")
    rows = embedding(input, weight)
    fold = _bags(input, rows, offsets, include_last_offset)
    factors = None if per_sample_weights is None else unsqueeze(per_sample_weights, -1)
    kept = None
    if padding_idx is not None:
        kept = unsqueeze(ne(input, padding_idx % weight.shape[0]), -1)
    if kept is None and offsets is None and mode != "sum":
        return mean(rows, 1) if mode == "mean" else amax(rows, 1)
    if mode != "max" and kept is not None:
        factors = kept if factors is None else mul(factors, kept)
    count = fold.total(_ones(input, weight) if kept is None else kept.to(weight.dtype))
    if mode == "max":
        least = rows if kept is None else where(kept, rows, -math.inf)
        return where(ne(count, 0), fold.largest(least), 0.0)
    total = fold.total(rows if factors is None else mul(rows, factors))
    return total if mode == "sum" else div(total, clamp(count, min=1))


@dataclass(frozen=True, slots=True)
class _Fold:
    """How what each row has is summed up, and its maximum found, in its bag."""

    total: Callable[[Tensor], Tensor]
    largest: Callable[[Tensor], Tensor]


def _bags(input: Tensor, rows: Tensor, offsets: Tensor | None, include_last: bool) -> _Fold:
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        return _Fold(lambda x: sum_(x, 1), lambda x: amax(x, 1))
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    numbers, bags = _numbers(offsets, input.shape[0]), offsets.shape[0]

    def scattered(x: Tensor, start: float, reduction: str) -> Tensor:
        blank = np.full((bags, x.shape[1]), start, x.dtype.core.numpy)
        return emit("scatter_nd", blank, numbers, x, reduction=reduction)[: bags - include_last]

    return _Fold(lambda x: scattered(x, 0, "add"), lambda x: scattered(x, -math.inf, "max"))


def _numbers(offsets: Tensor, count: int) -> Tensor:
    """For each of `count` indices the bag it is in [count, 1]; out of every range before the first."""
    starts = reshape(offsets.to(dtypes.int64), (-1, 1))
    begun = emit("scatter_nd", ints([0] * (count + 1)), starts, ints([1] * offsets.shape[0]), reduction="add")
    running = emit("cumsum", begun, axis=0, exclusive=False, reverse=False)
    bag = sub(running[:count], 1)
    return reshape(where(lt(bag, 0), _FAR, bag), (count, 1))


def _ones(input: Tensor, weight: Tensor) -> Tensor:
    return Tensor(np.ones((*input.shape, 1), weight.dtype.core.numpy))
