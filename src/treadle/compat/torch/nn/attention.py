"""Multi-head attention and transformer encoders. Weights have PyTorch's names."""

from __future__ import annotations

import copy
import math
from typing import Any

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions import activation, creation, norm
from treadle.compat.torch.functions.arithmetic import add, mul, where
from treadle.compat.torch.functions.matmul import linear, matmul
from treadle.compat.torch.functions.reduction import mean
from treadle.compat.torch.functions.shape import reshape, transpose, unsqueeze
from treadle.compat.torch.nn.container import ModuleList
from treadle.compat.torch.nn.layers import Dropout, LayerNorm, Linear, uniform
from treadle.compat.torch.nn.module import Module, Parameter
from treadle.compat.torch.tensor import Tensor
from treadle.frontends.torch.rules.rule import per_axis


class MultiheadAttention(Module):
    """Multi-head attention over [time, batch, width], [batch, time, width] with `batch_first`, or [time, width]."""

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, batch_first: bool = False
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.in_proj_weight = uniform(embed_dim, 3 * embed_dim, embed_dim)
        self.in_proj_bias = Parameter(creation.zeros(3 * embed_dim)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the result, and the weights [batch, to, from] (per head without `average_attn_weights`).

        True in a bool mask excludes a position; other masks are added. Raises NotImplementedError for dropout in
        training mode.
        """
        if self.training and self.dropout:
            raise NotImplementedError("attention with dropout: treadle runs inference; call module.eval()")
        one, swap = query.ndim == 2, query.ndim == 3 and not self.batch_first
        given = [unsqueeze(each, 0) if one else transpose(each, 0, 1) if swap else each for each in (query, key, value)]
        width, heads = self.embed_dim, self.num_heads
        parts = []
        for at, x in enumerate(given):
            rows = slice(at * width, (at + 1) * width)
            bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
            y = linear(x, self.in_proj_weight[rows], bias)
            parts.append(transpose(reshape(y, (y.shape[0], y.shape[1], heads, width // heads)), 1, 2))
        q, k, v = parts
        scores = mul(matmul(q, transpose(k, -2, -1)), 1 / math.sqrt(width // heads))
        if attn_mask is not None:
            batches = reshape(attn_mask, (-1, heads, *attn_mask.shape[1:])) if attn_mask.ndim == 3 else attn_mask
            scores = _masked(scores, batches)
        if key_padding_mask is not None:
            padding = unsqueeze(key_padding_mask, 0) if one else key_padding_mask
            scores = _masked(scores, unsqueeze(unsqueeze(padding, 1), 1))
        weights = activation.softmax(scores, -1)
        merged = reshape(transpose(matmul(weights, v), 1, 2), tuple(given[0].shape))
        result = self.out_proj(merged)
        result = result[0] if one else transpose(result, 0, 1) if swap else result
        if not need_weights:
            return result, None
        shown = mean(weights, 1) if average_attn_weights else weights
        return result, shown[0] if one else shown


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    return where(mask, float("-inf"), scores) if mask.dtype is dtypes.bool_ else add(scores, mask)


class TransformerEncoderLayer(Module):
    """Self-attention and a two-layer network, each with a residual connection and normalization."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward, bias), Linear(dim_feedforward, d_model, bias)
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps), LayerNorm(d_model, layer_norm_eps)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Returns a tensor of the shape of `src`."""
        x = src
        before = self.norm1(x) if self.norm_first else x
        found, _ = self.self_attn(before, before, before, src_key_padding_mask, False, src_mask)
        x = add(x, self.dropout(found))
        x = x if self.norm_first else self.norm1(x)
        inner = self.norm2(x) if self.norm_first else x
        x = add(x, self.dropout(self.linear2(self.dropout(self.activation(self.linear1(inner))))))
        return x if self.norm_first else self.norm2(x)


_ACTIVATIONS = {"relu": activation.relu, "gelu": activation.gelu}


class TransformerEncoder(Module):
    """Copies of a layer in sequence, then an optional normalization."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None, **options: Any) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: Any = None
    ) -> Tensor:
        """Returns a tensor of the shape of `src`."""
        for each in self.layers:
            src = each(src, mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class RMSNorm(Module):
    """Division by the root of the mean square over the last axes, then multiplication by weight."""

    def __init__(self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True) -> None:
        super().__init__()
        self.normalized_shape, self.eps = per_axis(normalized_shape, 1), eps
        self.weight = Parameter(creation.ones(self.normalized_shape)) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        """Returns a tensor of the shape of `input`."""
        return norm.rms_norm(input, self.normalized_shape, self.weight, self.eps)
