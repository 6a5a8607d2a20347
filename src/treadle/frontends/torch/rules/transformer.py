"""Attention and the encoder layer that PyTorch runs as one op each in eval mode."""

from __future__ import annotations

from collections.abc import Callable

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.activation import gelu
from treadle.frontends.torch.rules.elementwise import to_bool
from treadle.frontends.torch.rules.matmul import attention, linear
from treadle.frontends.torch.rules.norm import layer_norm
from treadle.graph.value import Value


def encoder_layer(
    b: Builder,
    x: Value,
    width: int,
    heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm1_weight: Value,
    norm1_bias: Value,
    norm2_weight: Value,
    norm2_bias: Value,
    inner_weight: Value,
    inner_bias: Value,
    outer_weight: Value,
    outer_bias: Value,
    mask: Value | None = None,
    mask_type: int | None = None,
) -> Value:
    """Returns the layer of x [N, T, width]; positions where the mask is true are excluded."""

    def attend(y: Value) -> Value:
        return _attended(b, y, heads, (qkv_weight, qkv_bias, proj_weight, proj_bias), mask, mask_type)

    def feed(y: Value) -> Value:
        inner = linear(b, y, inner_weight, inner_bias)
        return linear(b, gelu(b, inner) if use_gelu else b.add("relu", inner), outer_weight, outer_bias)

    def part(y: Value, work: Callable[[Value], Value], scale: Value, shift: Value) -> Value:
        if norm_first:
            return b.add("add", y, work(layer_norm(b, y, [width], scale, shift, eps)))
        return layer_norm(b, b.add("add", y, work(y)), [width], scale, shift, eps)

    return part(part(x, attend, norm1_weight, norm1_bias), feed, norm2_weight, norm2_bias)


def self_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    width: int,  # noqa: ARG001 - the op has it
    heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None = None,
    need_weights: bool = True,  # noqa: ARG001 - part of the signature
    average: bool = True,  # noqa: ARG001 - part of the signature
    mask_type: int | None = None,
) -> list[Value | None]:
    """Implements nn.MultiheadAttention in eval mode; the attention weights that it returns cannot be read."""
    if key is not query or value is not query:
        raise Unsupported("it attends from one tensor to another in one op; disable torch.backends.mha's fast path")
    parameters = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    return [_attended(b, query, heads, parameters, mask, mask_type), None]


def _attended(
    b: Builder, x: Value, heads: int, parameters: tuple[Value, ...], mask: Value | None, mask_type: int | None
) -> Value:
    """Returns the self-attention of x [N, T, width].

    The parameters are weight and bias of the input projection, then of the output projection.
    """
    batch, tokens, width = b.shape(x)
    allowed = None if mask is None else b.add("not", to_bool(b, _spread(b, mask, mask_type)))
    qkv = b.reshape(linear(b, x, *parameters[:2]), [batch, tokens, 3, heads, width // heads])
    parts = [b.reshape(b.slice(qkv, 2, n, n + 1), [batch, tokens, heads, width // heads]) for n in range(3)]
    q, k, v = (b.transpose(part, [0, 2, 1, 3]) for part in parts)
    mixed = b.reshape(b.transpose(attention(b, q, k, v, allowed), [0, 2, 1, 3]), [batch, tokens, width])
    return linear(b, mixed, *parameters[2:])


def _spread(b: Builder, mask: Value, kind: int | None) -> Value:
    """Returns the mask [T, T] (kind 0), [N, T] of keys (1) or [N, heads, T, T] (2), reshaped to broadcast."""
    if kind == 1:
        batch, tokens = b.shape(mask)
        return b.reshape(mask, [batch, 1, 1, tokens])
    if kind not in (0, 2):
        raise Unsupported(f"its mask is of kind {kind}; treadle knows those of torch.nn.TransformerEncoder")
    return mask
