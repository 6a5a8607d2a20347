"""Embedding bags: the rows of a table, reduced over each bag by sum, mean or maximum."""

from __future__ import annotations

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.rule import apply_rule
from treadle.compat.torch.functions.shape import ints
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor
from treadle.frontends.torch.rules.bag import MAX, MEAN, SUM
from treadle.ops.op import Array

_MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


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
    """Returns the bags [bags, width] of rows of weight [rows, width].

    `input` is [bags, size], or [n] with `offsets` [bags], the positions at which bags begin (with
    `include_last_offset`, also the end of the last). Rows equal to `padding_idx` do not count; an empty bag is 0.
    Raises ValueError for other shapes and modes.
    """
    if max_norm is not None:
        raise NotImplementedError("embedding_bag: max_norm writes into the table; scale its rows beforehand")
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights is only supported for mode='sum' (got {mode!r})"
            )
        if per_sample_weights.shape != input.shape:
            wanted, got = tuple(input.shape), tuple(per_sample_weights.shape)
            raise ValueError(f"embedding_bag: per_sample_weights must have the shape of the input {wanted}, got {got}")
    if input.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    indices, begins = _begun(input, offsets)
    ends = include_last_offset and offsets is not None
    args = (weight, indices, begins, False, _MODES[mode], False, per_sample_weights, ends, padding_idx)
    found: Tensor = apply_rule("embedding_bag", args)[0]
    return found


def _begun(input: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor | Array]:
    """Returns the indices of all bags in one axis, and the position where each bag begins."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        bags, size = input.shape
        return emit("reshape", input, ints([-1]), allowzero=False), np.arange(bags) * size
    if offsets is None or offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    return input, offsets
