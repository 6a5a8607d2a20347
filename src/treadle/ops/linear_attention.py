"""linear_attention: heads whose memory of earlier tokens is a matrix that each token changes.

A head of keys and values has a state S [key size, value size]. For each token, in order, S is multiplied by a factor,
gets the outer product of the key and a value, and is read by the queries of the heads that share it.
"""

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import f32
from treadle.errors import DtypeError, ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, operand, optional, present, result, same_dtype

_NAMES = ("q", "k", "v", "state", "factor", "rate")


def infer_linear_attention(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """q [N, T, heads * K], k [N, T, shared * K], v [N, T, shared * V], then operands that may be absent: state [N,
    shared, K, V], which is 0 then; factor [N, T, shared] or [N, T, shared * K], which is 1; rate [N, T, shared] or
    [N, T, 1].

    attrs: heads, of queries; shared, of keys and values; one of them is a multiple of the other.
    With a rate, a token adds rate * (v - S^T k) instead of v to what its key stands for. All operands are f32.

    Outputs: y [N, T, max(heads, shared) * V] and the last state.
    """
    named = [(name, optional(inputs, index)) for index, name in enumerate(_NAMES)]
    for index, (name, _) in enumerate(named[:3]):
        if len(dims(operand(inputs, index, name))) != 3:
            raise ShapeError(f"{name} must be [batch, tokens, width], got {text(dims(operand(inputs, index, name)))}")
    dtype = same_dtype(*named)
    if dtype != f32:
        raise DtypeError(f"q must be f32, got {dtype}")
    heads, shared = attrs["heads"], attrs["shared"]
    if min(heads, shared) < 1 or (heads % shared and shared % heads):
        raise ShapeError(f"heads and shared must be positive, one a multiple of the other, got {heads} and {shared}")
    q, k, v = (dims(operand(inputs, index, name)) for index, name in enumerate(_NAMES[:3]))
    state, factor, rate = (None if info is None else dims(info) for _, info in named[3:])
    batch, tokens, width = q
    if width % heads or v[2] % shared:
        raise ShapeError(f"the widths of q and v must be multiples of {heads} and {shared}, got {width} and {v[2]}")
    key, value = width // heads, v[2] // shared
    wanted = (
        ("k", k, ((batch, tokens, shared * key),)),
        ("v", v, ((batch, tokens, shared * value),)),
        ("state", state, ((batch, shared, key, value),)),
        ("factor", factor, ((batch, tokens, shared), (batch, tokens, shared * key))),
        ("rate", rate, ((batch, tokens, shared), (batch, tokens, 1))),
    )
    for name, shape, allowed in wanted:
        if shape is not None and shape not in allowed:
            raise ShapeError(f"{name} must be {' or '.join(map(text, allowed))}, got {text(shape)}")
    return [result(f32, (batch, tokens, max(heads, shared) * value)), result(f32, (batch, shared, key, value))]


def evaluate_linear_attention(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    heads, shared = attrs["heads"], attrs["shared"]
    q, k, v = (_apart(present(arrays, index), count) for index, count in enumerate((heads, shared, shared)))
    batch, tokens, _, key = k.shape
    state, factor, rate = (absent_or(arrays, index) for index in (3, 4, 5))
    last = np.zeros((batch, shared, key, v.shape[3]), np.float32) if state is None else state.copy()
    factors = None if factor is None else _apart(factor, shared)
    q = np.repeat(q, max(shared // heads, 1), axis=2)
    y = np.zeros((batch, tokens, max(heads, shared), v.shape[3]), np.float32)
    for token in range(tokens):
        if factors is not None:
            last = last * factors[:, token, :, :, None]
        added = v[:, token]
        if rate is not None:
            found = np.einsum("nhkv,nhk->nhv", last, k[:, token])
            added = rate[:, token, :, None] * (added - found)
        last = last + k[:, token, :, :, None] * added[:, :, None, :]
        read = np.repeat(last, max(heads // shared, 1), axis=1)
        y[:, token] = np.einsum("nhk,nhkv->nhv", q[:, token], read)
    return [y.reshape(batch, tokens, max(heads, shared) * v.shape[3]), last]


def _apart(x: Array, heads: int) -> Array:
    """[N, T, heads * size] as [N, T, heads, size]."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)
