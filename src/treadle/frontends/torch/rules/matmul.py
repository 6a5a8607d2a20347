"""Matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.create import arange
from treadle.frontends.torch.rules.elementwise import add, mul
from treadle.frontends.torch.rules.rule import Operand
from treadle.graph.dim import is_expression
from treadle.graph.value import Value


def matmul(b: Builder, x: Value, y: Value) -> Value:
    return b.matmul(x, y)


def linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Returns x [.., in] weight [out, in].T + bias."""
    product = b.matmul(x, weight, transpose_b=True) if b.rank(weight) > 1 else b.matmul(x, weight)
    return product if bias is None else b.add("add", product, bias)


def addmm(b: Builder, x: Value, one: Value, two: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    """Returns beta x + alpha (one two).

    As in PyTorch, a product of matrices without batches is not read if alpha is 0.
    """
    product = b.matmul(one, two)
    if alpha == 0 and b.rank(one) == 2:
        product = b.full(0, product.known_dtype, b.shape(product))
    elif alpha != 1:
        product = mul(b, product, alpha)
    if beta == 0:
        return product
    return add(b, product, x if beta == 1 else mul(b, x, beta))


def dot(b: Builder, x: Value, y: Value) -> Value:
    return b.reduce("reduce_sum", b.add("mul", x, y), (0,))


def bilinear(b: Builder, x: Value, y: Value, weight: Value, bias: Value | None = None) -> Value:
    """Returns x [.., n] weight [out, n, m] y [.., m] + bias."""
    found = b.add("einsum", x, weight, y, equation="...n,onm,...m->...o")
    return found if bias is None else b.add("add", found, bias)


def outer(b: Builder, x: Value, y: Value) -> Value:
    return b.add("mul", b.reshape(x, [-1, 1]), b.reshape(y, [1, -1]))


def einsum(b: Builder, equation: str, operands: Sequence[Value], path: object = None) -> Value:  # noqa: ARG001
    return b.add("einsum", *operands, equation=equation)


def attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Returns softmax(query key^T scale + mask) value, and 0 where the mask excludes all.

    A pass fuses the nodes into one op.
    """
    if dropout_p:
        raise Unsupported(
            "attention drops weights, as in training; treadle runs inference: pass dropout_p=0, or call .eval()"
        )
    dtype, rank = query.known_dtype, b.rank(query)
    if enable_gqa:
        groups = b.shape(query)[-3] // b.shape(key)[-3]
        key, value = (repeated_heads(b, each, groups) for each in (key, value))
    perm = [*range(rank - 2), rank - 1, rank - 2]
    factor = 1 / math.sqrt(b.shape(query)[-1]) if scale is None else scale
    masked = {} if mask is None else {"safe": True}
    scores = b.add("mul", b.matmul(query, b.transpose(key, perm)), b.scalar(factor, dtype))
    if is_causal:
        if mask is not None:
            raise Fault("attention takes either a mask or is_causal")
        mask = _causal(b, b.shape(query)[-2], b.shape(key)[-2])
    if mask is not None and mask.dtype == dtypes.boolean:
        scores = b.add("where", mask, scores, b.scalar(-math.inf, dtype))
    elif mask is not None:
        scores = b.add("add", scores, b.cast(mask, dtype))
    return b.matmul(b.add("softmax", scores, axis=rank - 1, **masked), value)


def _causal(b: Builder, queries: int, keys: int) -> Value:
    """Returns whether a query may attend to a key: to none behind it."""
    if not is_expression(queries) and not is_expression(keys):
        return b.constant(np.tri(queries, keys, dtype=bool))
    return b.add("ge", b.reshape(arange(b, queries), [queries, 1]), arange(b, keys))


def repeated_heads(b: Builder, x: Value, groups: int) -> Value:
    """Returns x [.., heads, tokens, width] with each head repeated `groups` times."""
    *front, heads, tokens, width = b.shape(x)
    wide = b.expand(b.reshape(x, [*front, heads, 1, tokens, width]), [*front, heads, groups, tokens, width])
    return b.reshape(wide, [*front, heads * groups, tokens, width])


def flash_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    mask: Value | None = None,
    scale: float | None = None,
) -> list[Value | None]:
    """Returns attention as PyTorch's CPU kernel does: the result, and what only its gradient reads."""
    return [attention(b, query, key, value, mask, dropout_p, is_causal, scale), None]
