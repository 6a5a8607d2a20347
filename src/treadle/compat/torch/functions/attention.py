"""Scaled dot-product attention."""

from __future__ import annotations

from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.tensor import Tensor


def _given(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[object, ...]:
    return query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa


scaled_dot_product_attention = of_op("scaled_dot_product_attention", _given)
