"""attention: softmax(epilogue(q @ k.T)) @ v, made by a pass where the scores are read by nothing else.

Operands are permuted to q [.., queries, depth], k [.., keys, depth] and v [.., keys, width]; leading axes
broadcast. The epilogue (scale, mask) works on the scores [.., queries, keys]; `out_perm` permutes the result. A sink
[.., 1, 1] is the score of one more key, whose row of v is 0.
"""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape, broadcast, text
from treadle.ops.epilogue import apply_epilogue, infer_epilogue
from treadle.ops.matmul import operand_shape
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    dims,
    must_broadcast_to,
    need_float,
    operand,
    present,
    rank_at_least,
    result,
    same_dtype,
    widened,
)
from treadle.ops.softmax import evaluate_softmax
from treadle.ops.transpose import checked_perm


def scores_shape(q: StaticShape, k: StaticShape) -> StaticShape:
    """The shape of q @ k.T for operands as they are multiplied."""
    return (*broadcast(q[:-2], k[:-2]), q[-2], k[-2])


def repeated_heads(attrs: Attrs, shape: StaticShape) -> StaticShape:
    """The `shape` of keys or values as if each head of queries had its own."""
    if "repeats" not in attrs:
        return shape
    if len(shape) < 3:
        raise ShapeError(f"heads can be repeated from rank 3 on, got {text(shape)}")
    return (*shape[:-3], shape[-3] * attrs["repeats"], *shape[-2:])


def infer_attention(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """inputs: q, k, v, operands of the epilogue, the sink. attrs, all optional: q_perm, k_perm, v_perm, out_perm,
    epilogue, sums (the dtype of scores and result, where not that of q), safe (as softmax has it), sink (whether there
    is one), repeats (how many heads of q, the last leading axis, one after another, share each head of k and v)."""
    infos = [operand(inputs, number, name) for number, name in enumerate("qkv")]
    dtype = same_dtype(*zip("qkv", infos, strict=True))
    need_float(infos[0], "q")
    dtype = attrs.get("sums", dtype)
    q, k, v = (
        operand_shape(attrs, name, rank_at_least(info, 2, name)) for name, info in zip("qkv", infos, strict=True)
    )
    k, v = repeated_heads(attrs, k), repeated_heads(attrs, v)
    if q[-1] != k[-1]:
        raise ShapeError(f"depths differ: q is {text(q)}, k is {text(k)}")
    if k[-2] != v[-2]:
        raise ShapeError(f"numbers of keys differ: k is {text(k)}, v is {text(v)}")
    scores = scores_shape(q, k)
    if attrs.get("sink"):
        sink = operand(inputs, len(inputs) - 1, "sink")
        same_dtype(("scores", Info(dtype, scores)), ("sink", sink))
        must_broadcast_to(dims(sink), (*scores[:-2], 1, 1), "the sink")
    (found,) = infer_epilogue(attrs, dtype, scores, inputs[: epilogue_end(attrs, inputs)], 3)
    if found.dtype != dtype:
        raise ShapeError(f"the epilogue must give {dtype}, got {found.dtype}")
    shape: StaticShape = (*broadcast(scores[:-2], v[:-2]), q[-2], v[-1])
    if attrs.get("out_perm") is not None:
        shape = tuple(shape[axis] for axis in checked_perm(attrs["out_perm"], len(shape)))
    return [result(dtype, shape)]


def epilogue_end(attrs: Attrs, inputs: Sequence[object]) -> int:
    """Behind which of `inputs` the operands of the epilogue end."""
    return len(inputs) - bool(attrs.get("sink"))


def evaluate_attention(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """The scores as a whole, then softmax, then the second product."""
    q, k, v = (permuted(attrs, name, present(arrays, number)) for number, name in enumerate("qkv"))
    if "repeats" in attrs:
        k, v = (np.repeat(each, attrs["repeats"], axis=-3) for each in (k, v))
    dtype = attrs["sums"].numpy if "sums" in attrs else q.dtype
    with np.errstate(all="ignore"):
        scores = np.matmul(widened(q), widened(k).swapaxes(-1, -2)).astype(dtype)
        (scores,) = apply_epilogue(attrs, scores, arrays[: epilogue_end(attrs, arrays)], 3)
        if attrs.get("sink"):
            sink = np.broadcast_to(present(arrays, len(arrays) - 1), (*scores.shape[:-1], 1))
            scores = np.concatenate([scores, sink], axis=-1)
        (weights,) = evaluate_softmax({"axis": -1, "safe": attrs.get("safe")}, [scores])
        weights = weights[..., : k.shape[-2]]
        product = np.matmul(widened(weights), widened(v)).astype(dtype)
    return [product if attrs.get("out_perm") is None else product.transpose(attrs["out_perm"]).copy()]


def permuted(attrs: Attrs, side: str, array: Array) -> Array:
    perm = attrs.get(f"{side}_perm")
    return array if perm is None else array.transpose(perm)
