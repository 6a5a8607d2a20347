"""Attention."""

from __future__ import annotations

import math

import numpy as np

from weft.compat.torch import dtypes
from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.functions.activation import softmax
from weft.compat.torch.functions.arithmetic import add, mul, where
from weft.compat.torch.functions.matmul import matmul
from weft.compat.torch.functions.shape import transpose
from weft.compat.torch.tensor import Tensor


@tensor_function
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Tensor:
    """softmax(query key^T scale + mask) value; `scale` is 1 / sqrt(width) unless given."""
    if dropout_p:
        raise NotImplementedError("attention with dropout: weft runs inference; pass dropout_p=0.0")
    scores = mul(matmul(query, transpose(key, -2, -1)), scale or 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        attn_mask = Tensor(np.tri(query.shape[-2], key.shape[-2], dtype=bool))
    if attn_mask is not None:
        blocked = float("-inf")
        masked = attn_mask.dtype is dtypes.bool_
        scores = where(attn_mask, scores, blocked) if masked else add(scores, attn_mask)
    return matmul(softmax(scores, -1), value)
