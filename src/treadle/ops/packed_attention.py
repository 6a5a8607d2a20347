"""packed_attention: attention within each of several texts, whose rows lie one after another without padding."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from treadle import dtypes
from treadle.errors import OutOfRangeError, ShapeError
from treadle.graph.shape import text
from treadle.ops.attention import evaluate_attention, infer_attention, permuted
from treadle.ops.matmul import operand_shape
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present


def infer_packed_attention(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """inputs: q, k, v [.., rows, ..] with equal rows, and offsets [texts + 1] i64: text t has the rows from offsets[t]
    to before offsets[t + 1]. Other rows of the result are undefined.

    attrs: those of attention, but for `sums`, of which the epilogue has no operands; longest (no text has more rows).
    """
    offsets = operand(inputs, 3, "offsets")
    if offsets.dtype != dtypes.i64 or len(dims(offsets)) != 1 or dims(offsets)[0] < 1:
        raise ShapeError(f"offsets must be i64 [texts + 1], got {offsets.dtype} {text(dims(offsets))}")
    rows = [operand_shape(attrs, name, dims(operand(inputs, at, name)))[-2] for at, name in enumerate("qk")]
    if rows[0] != rows[1]:
        raise ShapeError(f"q has {rows[0]} rows, k {rows[1]}; both must have those of all texts")
    return infer_attention(attrs, inputs[:3], n_outputs)


def evaluate_packed_attention(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """The NumPy reference; rows of no text get 0."""
    q, k, v = (permuted(attrs, name, present(arrays, at)) for at, name in enumerate("qkv"))
    offsets = present(arrays, 3)
    own: Attrs = {name: attrs[name] for name in ("epilogue", "safe") if name in attrs}
    batch = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    result = np.zeros((*batch, q.shape[-2], v.shape[-1]), q.dtype)
    for start, end in pairwise(offsets):
        if not 0 <= start <= end <= q.shape[-2] or end - start > attrs["longest"]:
            raise OutOfRangeError(f"a text cannot have the rows from {start} to before {end} of {q.shape[-2]}")
        if start < end:
            rows = slice(start, end)
            result[..., rows, :] = evaluate_attention(own, [each[..., rows, :] for each in (q, k, v)])[0]
    return [result if attrs.get("out_perm") is None else result.transpose(attrs["out_perm"]).copy()]
