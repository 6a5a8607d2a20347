"""Ops on tensors of which little is known: what TensorFlow says of the shapes of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Build = Callable[[Any, Any], Any]
"""(the module tf, a function that returns a placeholder of this shape and dtype) -> a tensor."""

F3 = np.zeros((3, 3, 3, 4), np.float32)
I32 = "int32"


def using(x: Any, function: Callable[[Any], Any]) -> Any:
    """Return function(x)."""
    return function(x)


def _inside(tf: Any, start: Any) -> Any:
    """Return what the body of a loop makes of a variable whose size may change."""
    seen: list[Any] = []

    def body(i: Any, x: Any) -> Any:
        seen.append(tf.reshape(x, [-1]))
        seen.append(x[1:])
        return i + 1, tf.concat([x, x], 0)

    tf.while_loop(
        lambda i, _: i < 3, body, (0, start), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3]))
    )
    return seen[1]


SHAPES: dict[str, tuple[Build, str]] = {
    # Elementwise
    "abs": (lambda tf, u: tf.abs(u([None, 3])), "float32 [None, 3]"),
    "abs of anything": (lambda tf, u: tf.abs(u(None)), "float32 of any rank"),
    "add, open and known": (lambda tf, u: u([None, 3]) + u([32, 3]), "float32 [32, 3]"),
    "add, open and 1": (lambda tf, u: u([None, 3]) * u([4, 1, 1]), "float32 [4, None, 3]"),
    "add, open and open": (lambda tf, u: u([None, 3]) + u([None, 3]), "float32 [None, 3]"),
    "add, four open": (lambda tf, u: u([None] * 4) + u([None] * 4), "float32 [None, None, None, None]"),
    "add, six open": (lambda tf, u: u([None] * 6) + u([None] * 6), "float32 [None, None, None, None, None, None]"),
    "add, two ranks": (lambda tf, u: u([None, None, 5]) + u([None, 1]), "float32 [None, None, 5]"),
    "add, itself": (
        lambda tf, u: using(u([None] * 6), lambda x: x + tf.nn.relu(x)),
        "float32 [None, None, None, None, None, None]"),
    "add anything": (lambda tf, u: u(None) + u([3]), "float32 of any rank"),
    "add a scalar to anything": (lambda tf, u: u(None) + 1.0, "float32 of any rank"),
    "compare": (lambda tf, u: tf.less(u([None, 1]), u([4])), "bool [None, 4]"),
    "maximum": (lambda tf, u: tf.maximum(u([None, 4]), u([None, 1])), "float32 [None, 4]"),
    "where": (lambda tf, u: tf.where(u([None, 3], "bool")), "int64 [None, 2]"),
    "where of anything": (lambda tf, u: tf.where(u(None, "bool")), "int64 [None, None]"),
    "where chooses": (lambda tf, u: tf.where(u([None, 1], "bool"), u([None, 3]), 0.0), "float32 [None, 3]"),
    "clip": (lambda tf, u: tf.clip_by_value(u([None, 3]), 0.0, 1.0), "float32 [None, 3]"),
    "clip anything": (lambda tf, u: tf.clip_by_value(u(None), 0.0, 1.0), "float32 of any rank"),
    "add_n": (lambda tf, u: tf.add_n([u([None, 3]), u([2, None])]), "float32 [2, 3]"),
    "cast": (lambda tf, u: tf.cast(u([None, 3]), tf.int64), "int64 [None, 3]"),
    "div_no_nan": (lambda tf, u: tf.math.divide_no_nan(u([None, 3]), u([None, 1])), "float32 [None, 3]"),
    "truediv of integers": (lambda tf, u: u([None], I32) / u([None], I32), "float64 [None]"),
    "floordiv of integers": (lambda tf, u: u([None], I32) // 2, "int32 [None]"),
    "squared_difference": (lambda tf, u: tf.math.squared_difference(u([None, 3]), u([3])), "float32 [None, 3]"),
    # Reductions
    "reduce_sum": (lambda tf, u: tf.reduce_sum(u([None, 3, None]), 1), "float32 [None, None]"),
    "reduce_sum keepdims": (
        lambda tf, u: tf.reduce_sum(u([None, 3, None]), [0, 2], keepdims=True), "float32 [1, 3, 1]"),
    "reduce_sum of anything": (lambda tf, u: tf.reduce_sum(u(None)), "float32 []"),
    "reduce_sum of anything, an axis": (lambda tf, u: tf.reduce_sum(u(None), 1), "float32 of any rank"),
    "reduce_sum, an open axis": (lambda tf, u: tf.reduce_sum(u([None, 3]), u([], I32)), "float32 of any rank"),
    "reduce_sum, open axes": (lambda tf, u: tf.reduce_sum(u([None, 3]), u([1], I32)), "float32 of any rank"),
    "reduce_sum, an open axis, keepdims": (
        lambda tf, u: tf.reduce_sum(u([None, 3]), u([], I32), keepdims=True), "float32 [None, None]"),
    "reduce_mean": (lambda tf, u: tf.reduce_mean(u([None, None, None, 8]), [1, 2]), "float32 [None, 8]"),
    "reduce_mean of integers": (lambda tf, u: tf.reduce_mean(u([None, 3], I32), 0), "int32 [3]"),
    "reduce_mean of anything": (lambda tf, u: tf.reduce_mean(u(None)), "float32 []"),
    "reduce_mean of any integers": (lambda tf, u: tf.reduce_mean(u(None, I32)), "int32 []"),
    "reduce_any": (lambda tf, u: tf.reduce_any(u([None, 3], "bool"), 1), "bool [None]"),
    "reduce_all of anything": (lambda tf, u: tf.reduce_all(u(None, "bool")), "bool []"),
    "reduce_logsumexp": (lambda tf, u: tf.reduce_logsumexp(u([None, 3]), 1), "float32 [None]"),
    "reduce_logsumexp of anything": (lambda tf, u: tf.reduce_logsumexp(u(None)), "float32 []"),
    "reduce_std": (lambda tf, u: tf.math.reduce_std(u([None, 3]), 0), "float32 [3]"),
    "reduce_variance of anything": (lambda tf, u: tf.math.reduce_variance(u(None)), "float32 []"),
    "norm": (lambda tf, u: tf.norm(u([None, 3]), axis=1), "float32 [None]"),
    "count_nonzero": (lambda tf, u: tf.math.count_nonzero(u([None, 3]), 1), "int64 [None]"),
    "count_nonzero of anything": (lambda tf, u: tf.math.count_nonzero(u(None)), "int64 []"),
    "moments": (lambda tf, u: tf.nn.moments(u([None, 3]), [0])[1], "float32 [3]"),
    "moments of anything": (lambda tf, u: tf.nn.moments(u(None), [0])[0], "float32 of any rank"),
    "argmax": (lambda tf, u: tf.argmax(u([None, 3]), 1), "int64 [None]"),
    "argmax of anything": (lambda tf, u: tf.argmax(u(None), 1), "int64 of any rank"),
    "argmax, an open axis": (lambda tf, u: tf.argmax(u([None, 3]), u([], I32), output_type=tf.int32), "int32 [None]"),
    "cumsum": (lambda tf, u: tf.cumsum(u([None, 3]), 1), "float32 [None, 3]"),
    "cumsum of anything": (lambda tf, u: tf.cumsum(u(None), 1), "float32 of any rank"),
    "top_k": (lambda tf, u: tf.nn.top_k(u([None, 7]), 3)[1], "int32 [None, 3]"),
    "top_k of an open size": (lambda tf, u: tf.nn.top_k(u([None, None]), 3)[0], "float32 [None, 3]"),
    "top_k, an open k": (lambda tf, u: tf.nn.top_k(u([None, 7]), u([], I32))[0], "float32 [None, None]"),
    "top_k of anything": (lambda tf, u: tf.nn.top_k(u(None), 3)[1], "int32 of any rank"),
    "l2_loss": (lambda tf, u: tf.nn.l2_loss(u([None, 7])), "float32 []"),
    "l2_loss of anything": (lambda tf, u: tf.nn.l2_loss(u(None)), "float32 []"),
    "l2_normalize": (lambda tf, u: tf.nn.l2_normalize(u([None, 7]), 1), "float32 [None, 7]"),
    "in_top_k": (lambda tf, u: tf.math.in_top_k(u([None], I32), u([None, 5]), 2), "bool [None]"),
    # Products
    "matmul": (lambda tf, u: tf.matmul(u([None, None]), u([784, 5])), "float32 [None, 5]"),
    "matmul transposed": (
        lambda tf, u: tf.matmul(u([None, 3]), u([None, 3]), transpose_b=True), "float32 [None, None]"),
    "matmul of batches": (lambda tf, u: tf.matmul(u([2, None, 3]), u([None, 3, 4])), "float32 [2, None, 4]"),
    "matmul of open batches": (lambda tf, u: tf.matmul(u([None, None, 3]), u([None, 3, 4])), "float32 [None, None, 4]"),
    "matmul of attention": (
        lambda tf, u: tf.matmul(u([None, 4, None, 8]), u([None, 4, None, 8]), transpose_b=True),
        "float32 [None, 4, None, None]"),
    "matmul of anything": (lambda tf, u: tf.matmul(u(None), u([3, 4])), "float32 of any rank"),
    "matmul of all open": (lambda tf, u: tf.matmul(u([None] * 4), u([None] * 4)), "float32 [None, None, None, None]"),
    "matvec": (lambda tf, u: tf.linalg.matvec(u([None, 3]), u([3])), "float32 [None]"),
    "tensordot": (lambda tf, u: tf.tensordot(u([None, None, 3]), u([3, 4]), 1), "float32 [None, None, 4]"),
    "tensordot, axes": (
        lambda tf, u: tf.tensordot(u([None, 3, None]), u([4, 3]), [[1], [1]]), "float32 [None, None, 4]"),
    "tensordot of anything": (lambda tf, u: tf.tensordot(u(None), u([3, 4]), 1), "float32 of any rank"),
    "einsum": (lambda tf, u: tf.einsum("bij,jk->bik", u([None, None, 3]), u([3, 4])), "float32 [None, None, 4]"),
    "einsum of heads": (
        lambda tf, u: tf.einsum("bqhd,bkhd->bhqk", u([None, None, 4, 8]), u([None, None, 4, 8])),
        "float32 [None, 4, None, None]"),
    "einsum of anything": (lambda tf, u: tf.einsum("bij,jk->bik", u(None), u([3, 4])), "float32 [None, None, 4]"),
    # Shapes
    "shape": (lambda tf, u: tf.shape(u([None, 3])), "int32 [2]"),
    "shape of anything": (lambda tf, u: tf.shape(u(None)), "int32 [None]"),
    "rank of anything": (lambda tf, u: tf.rank(u(None)), "int32 []"),
    "size of anything": (lambda tf, u: tf.size(u(None)), "int32 []"),
    "shape arithmetic": (lambda tf, u: tf.zeros([tf.shape(u([None, 4]))[0] * 2, 3]), "float32 [None, 3]"),
    "shape kept": (lambda tf, u: tf.zeros(tf.shape(u([None, 4]))), "float32 [None, 4]"),
    "shape kept of anything": (lambda tf, u: tf.zeros(tf.shape(u(None))), "float32 of any rank"),
    "shape concatenated": (lambda tf, u: tf.ones(tf.concat([tf.shape(u([None, 4])), [7]], 0)), "float32 [None, 4, 7]"),
    "known part of a shape": (lambda tf, u: tf.range(tf.shape(u([None, 4]))[1]), "int32 [4]"),
    "open part of a shape": (lambda tf, u: tf.range(tf.shape(u([None, 4]))[0]), "int32 [None]"),
    "reshape": (lambda tf, u: tf.reshape(u([None, 4, 16]), [-1, 64]), "float32 [None, 64]"),
    "reshape to anything": (lambda tf, u: tf.reshape(u(None), u([3], I32)), "float32 [None, None, None]"),
    "reshape to any rank": (lambda tf, u: tf.reshape(u([2, 3]), u([None], I32)), "float32 of any rank"),
    "reshape of anything": (lambda tf, u: tf.reshape(u(None), [-1, 4]), "float32 [None, 4]"),
    "reshape to a known shape": (lambda tf, u: tf.reshape(u([None, None]), [2, 3]), "float32 [2, 3]"),
    "reshape all known but -1": (lambda tf, u: tf.reshape(u([4, 6]), [2, -1, 3]), "float32 [2, 4, 3]"),
    "reshape of a batch": (
        lambda tf, u: using(u([None, 3, 4]), lambda x: tf.reshape(x, [tf.shape(x)[0], 12])), "float32 [None, 12]"),
    "reshape, heads": (
        lambda tf, u: using(u([None, None, 32]), lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 4, 8])),
        "float32 [None, None, 4, 8]"),
    "expand_dims": (lambda tf, u: tf.expand_dims(u([None, 3]), 1), "float32 [None, 1, 3]"),
    "expand_dims from the end": (lambda tf, u: tf.expand_dims(u([None, 3]), -1), "float32 [None, 3, 1]"),
    "expand_dims of anything": (lambda tf, u: tf.expand_dims(u(None), 0), "float32 of any rank"),
    "squeeze an axis": (lambda tf, u: tf.squeeze(u([None, 1, 4]), [1]), "float32 [None, 4]"),
    "squeeze an open axis": (lambda tf, u: tf.squeeze(u([None, None, 4]), [1]), "float32 [None, 4]"),
    "squeeze": (lambda tf, u: tf.squeeze(u([None, 1, 4])), "float32 of any rank"),
    "squeeze known": (lambda tf, u: tf.squeeze(u([2, 1, 4])), "float32 [2, 4]"),
    "squeeze anything": (lambda tf, u: tf.squeeze(u(None)), "float32 of any rank"),
    "squeeze an axis of anything": (lambda tf, u: tf.squeeze(u(None), [1]), "float32 of any rank"),
    "transpose": (lambda tf, u: tf.transpose(u([None, 3, 4]), [0, 2, 1]), "float32 [None, 4, 3]"),
    "transpose all": (lambda tf, u: tf.transpose(u([None, 3, 4])), "float32 [4, 3, None]"),
    "transpose anything": (lambda tf, u: tf.transpose(u(None), [0, 2, 1]), "float32 [None, None, None]"),
    "transpose anything, all": (lambda tf, u: tf.transpose(u(None)), "float32 of any rank"),
    "transpose, an open order": (lambda tf, u: tf.transpose(u([2, 3]), u([2], I32)), "float32 [None, None]"),
    "matrix_transpose": (lambda tf, u: tf.linalg.matrix_transpose(u([None, 3, 4])), "float32 [None, 4, 3]"),
    "broadcast_to": (lambda tf, u: tf.broadcast_to(u([None, 3]), [2, 5, 3]), "float32 [2, 5, 3]"),
    "broadcast_to an open shape": (
        lambda tf, u: tf.broadcast_to(u([1, 3]), tf.shape(u([None, 3]))), "float32 [None, 3]"),
    "broadcast_to anything": (lambda tf, u: tf.broadcast_to(u([3]), u([2], I32)), "float32 [None, 3]"),
    "tile": (lambda tf, u: tf.tile(u([None, 4]), [2, 3]), "float32 [None, 12]"),
    "tile, open": (lambda tf, u: tf.tile(u([None, 4]), u([2], I32)), "float32 [None, None]"),
    "tile anything": (lambda tf, u: tf.tile(u(None), [2, 3]), "float32 [None, None]"),
    "tile by a size": (lambda tf, u: tf.tile(u([1, 4]), [tf.shape(u([None]))[0], 1]), "float32 [None, 4]"),
    "concat": (lambda tf, u: tf.concat([u([None, 3]), u([2, 4])], 1), "float32 [2, 7]"),
    "concat open": (lambda tf, u: tf.concat([u([None, 3]), u([None, 3])], 0), "float32 [None, 3]"),
    "concat open, other sizes": (
        lambda tf, u: tf.concat([u([None, None, 3]), u([None, None, 4])], -1), "float32 [None, None, 7]"),
    "concat, five open": (
        lambda tf, u: tf.concat([u([None] * 5), u([None] * 5)], -1), "float32 [None, None, None, None, None]"),
    "concat with anything": (lambda tf, u: tf.concat([u(None), u([2, 4])], 1), "float32 [2, None]"),
    "concat, an open axis": (lambda tf, u: tf.concat([u([2, 4]), u([2, 4])], u([], I32)), "float32 [None, None]"),
    "concat of anything": (lambda tf, u: tf.concat([u(None), u(None)], 1), "float32 of any rank"),
    "stack": (lambda tf, u: tf.stack([u([None, 3]), u([None, 3])]), "float32 [2, None, 3]"),
    "stack with anything": (lambda tf, u: tf.stack([u(None), u([2, 4])], 1), "float32 [2, 2, 4]"),
    "stack of anything": (lambda tf, u: tf.stack([u(None), u(None)]), "float32 of any rank"),
    "unstack": (lambda tf, u: tf.unstack(u([None, 3]), axis=1)[2], "float32 [None]"),
    "unstack, num": (lambda tf, u: tf.unstack(u([None, 3]), 2)[1], "float32 [3]"),
    "unstack of anything, num": (lambda tf, u: tf.unstack(u(None), 2)[1], "float32 of any rank"),
    "split": (lambda tf, u: tf.split(u([None, 6]), 3, 1)[2], "float32 [None, 2]"),
    "split an open axis": (lambda tf, u: tf.split(u([None, 6]), 3)[2], "float32 [None, 6]"),
    "split into sizes": (lambda tf, u: tf.split(u([None, 6]), [1, 2, -1], 1)[2], "float32 [None, 3]"),
    "split an open axis into sizes": (lambda tf, u: tf.split(u([None, 6]), [1, 2, -1])[2], "float32 [None, 6]"),
    "split into open sizes": (lambda tf, u: tf.split(u([None, 6]), u([2], I32), 1)[0], "float32 [None, None]"),
    "split anything": (lambda tf, u: tf.split(u(None), 3, 1)[2], "float32 of any rank"),
    "pad": (lambda tf, u: tf.pad(u([None, 3]), [[1, 0], [2, 3]]), "float32 [None, 8]"),
    "pad, open": (lambda tf, u: tf.pad(u([None, 3]), u([2, 2], I32)), "float32 [None, None]"),
    "pad, reflect": (lambda tf, u: tf.pad(u([None, 3]), [[1, 0], [2, 1]], "REFLECT"), "float32 [None, 6]"),
    "pad, symmetric": (lambda tf, u: tf.pad(u([None, 3]), [[1, 0], [2, 1]], "SYMMETRIC"), "float32 [None, 6]"),
    "pad anything": (lambda tf, u: tf.pad(u(None), [[1, 0], [2, 3]]), "float32 [None, None]"),
    "reverse": (lambda tf, u: tf.reverse(u([None, 3]), [0]), "float32 [None, 3]"),
    "reverse anything": (lambda tf, u: tf.reverse(u(None), [0]), "float32 of any rank"),
    "roll": (lambda tf, u: tf.roll(u([None, 3]), 1, 0), "float32 [None, 3]"),
    "roll anything": (lambda tf, u: tf.roll(u(None), 1, 0), "float32 of any rank"),
    "repeat": (lambda tf, u: tf.repeat(u([None, 3]), 2, 1), "float32 [None, 6]"),
    "repeat open": (lambda tf, u: tf.repeat(u([None, 3]), 2, 0), "float32 [None, 3]"),
    "meshgrid": (lambda tf, u: tf.meshgrid(u([None]), u([3]))[0], "float32 [3, None]"),
    "fill": (lambda tf, u: tf.fill([2, 3], u([])), "float32 [2, 3]"),
    "fill, open": (lambda tf, u: tf.fill(u([2], I32), 1.0), "float32 [None, None]"),
    "fill, any rank": (lambda tf, u: tf.fill(u([None], I32), 1.0), "float32 of any rank"),
    "zeros, open": (lambda tf, u: tf.zeros(u([2], I32)), "float32 [None, None]"),
    "zeros, any rank": (lambda tf, u: tf.zeros(u([None], I32)), "float32 of any rank"),
    "zeros_like": (lambda tf, u: tf.zeros_like(u([None, 3])), "float32 [None, 3]"),
    "zeros_like anything": (lambda tf, u: tf.zeros_like(u(None)), "float32 of any rank"),
    "ones_like": (lambda tf, u: tf.ones_like(u([None, 3]), tf.int32), "int32 [None, 3]"),
    "ones_like anything": (lambda tf, u: tf.ones_like(u(None), tf.int32), "int32 of any rank"),
    "eye": (lambda tf, u: tf.eye(u([], I32)), "float32 [None, None]"),
    "eye known": (lambda tf, u: tf.eye(3, 4), "float32 [3, 4]"),
    "range": (lambda tf, u: tf.range(u([], I32)), "int32 [None]"),
    "range of two": (lambda tf, u: tf.range(2, u([], I32), 2), "int32 [None]"),
    "range of numbers": (lambda tf, u: tf.range(2, 9, 2), "int32 [4]"),
    "linspace": (lambda tf, u: tf.linspace(0.0, 1.0, 5), "float32 [5]"),
    "linspace, open ends": (lambda tf, u: tf.linspace(u([]), u([]), 5), "float32 [5]"),
    "one_hot": (lambda tf, u: tf.one_hot(u([None, 3], I32), 5), "float32 [None, 3, 5]"),
    "one_hot, open depth": (lambda tf, u: tf.one_hot(u([None], I32), u([], I32)), "float32 [None, None]"),
    "one_hot, axis 0": (lambda tf, u: tf.one_hot(u([None], I32), 5, axis=0), "float32 [5, None]"),
    "one_hot of anything": (lambda tf, u: tf.one_hot(u(None, I32), 5), "float32 of any rank"),
    "sequence_mask": (lambda tf, u: tf.sequence_mask(u([None], I32), 5), "bool [None, 5]"),
    "sequence_mask, open": (lambda tf, u: tf.sequence_mask(u([None], I32)), "bool [None, None]"),
    "ensure_shape": (lambda tf, u: tf.ensure_shape(u([None, 3]), [2, None]), "float32 [2, 3]"),
    "ensure_shape of anything": (lambda tf, u: tf.ensure_shape(u(None), [None, 3]), "float32 [None, 3]"),
    "identity of anything": (lambda tf, u: tf.identity(u(None)), "float32 of any rank"),
    "band_part": (lambda tf, u: tf.linalg.band_part(u([None, 3, 3]), -1, 0), "float32 [None, 3, 3]"),
    "band_part open": (lambda tf, u: tf.linalg.band_part(u([None, None]), -1, 0), "float32 [None, None]"),
    "diag": (lambda tf, u: tf.linalg.diag(u([None])), "float32 [None, None]"),
    "diag_part": (lambda tf, u: tf.linalg.diag_part(u([None, 3, 3])), "float32 [None, 3]"),
    "trace": (lambda tf, u: tf.linalg.trace(u([None, 3, 3])), "float32 [None]"),
    "argsort": (lambda tf, u: tf.argsort(u([None, 3])), "int32 [None, 3]"),
    "sort": (lambda tf, u: tf.sort(u([None, 3])), "float32 [None, 3]"),
    "sort open": (lambda tf, u: tf.sort(u([3, None])), "float32 [3, None]"),
    # Gathers and slices
    "a slice of an unknown size": (lambda tf, u: u([None, 4])[1:3], "float32 [None, 4]"),
    "the first rows": (lambda tf, u: u([None, 4])[:3], "float32 [None, 4]"),
    "from a row on": (lambda tf, u: u([None, 4])[2:], "float32 [None, 4]"),
    "the last rows": (lambda tf, u: u([None, 4])[-2:], "float32 [None, 4]"),
    "all but the last": (lambda tf, u: u([None, 4])[:-1, :-1], "float32 [None, 3]"),
    "backward": (lambda tf, u: u([None, 9])[::-1, None, -3:], "float32 [None, 1, 3]"),
    "every second": (lambda tf, u: u([None, 9])[::2, ::2], "float32 [None, 5]"),
    "a slice to anywhere": (lambda tf, u: u([None, 4])[: u([], I32), 0], "float32 [None]"),
    "a row": (lambda tf, u: u([None, 4])[0], "float32 [4]"),
    "the last row": (lambda tf, u: u([None, 4])[-1], "float32 [4]"),
    "a row of anywhere": (lambda tf, u: u([None, 4])[u([], I32)], "float32 [4]"),
    "ellipsis": (lambda tf, u: u([None, 4, 5])[..., 0], "float32 [None, 4]"),
    "ellipsis of anything": (lambda tf, u: u(None)[..., 0], "float32 of any rank"),
    "a new axis of anything": (lambda tf, u: u(None)[None], "float32 of any rank"),
    "a row of anything": (lambda tf, u: u(None)[0], "float32 of any rank"),
    "a new axis": (lambda tf, u: u([None, 4])[:, None], "float32 [None, 1, 4]"),
    "tf.slice": (lambda tf, u: tf.slice(u([None, 4]), u([2], I32), [1, 2]), "float32 [1, 2]"),
    "tf.slice to the end": (lambda tf, u: tf.slice(u([None, 4]), [1, 1], [-1, 2]), "float32 [None, 2]"),
    "tf.slice to an open end": (lambda tf, u: tf.slice(u([None, 4]), [0, 1], u([2], I32)), "float32 [None, None]"),
    "tf.slice of anything": (lambda tf, u: tf.slice(u(None), [0, 1], [2, 3]), "float32 [2, 3]"),
    "strided_slice": (lambda tf, u: tf.strided_slice(u([None, 4]), [0, 1], [2, 3]), "float32 [None, 2]"),
    "gather": (lambda tf, u: tf.gather(u([None, 4]), u([None, 2], I32)), "float32 [None, 2, 4]"),
    "gather, axis 1": (lambda tf, u: tf.gather(u([None, 4]), [0, 1, 2], axis=1), "float32 [None, 3]"),
    "gather, batch": (
        lambda tf, u: tf.gather(u([None, None, 4]), u([None, 5], I32), batch_dims=1, axis=1), "float32 [None, 5, 4]"),
    "gather from anything": (lambda tf, u: tf.gather(u(None), u([3], I32)), "float32 of any rank"),
    "gather at anything": (lambda tf, u: tf.gather(u([5, 4]), u(None, I32)), "float32 of any rank"),
    "gather_nd": (lambda tf, u: tf.gather_nd(u([None, None, 4]), u([None, 2], I32)), "float32 [None, 4]"),
    "gather_nd, open depth": (lambda tf, u: tf.gather_nd(u([3, 4]), u([2, None], I32)), "float32 of any rank"),
    "embedding_lookup": (
        lambda tf, u: tf.nn.embedding_lookup(u([1000, 64]), u([None, None], I32)), "float32 [None, None, 64]"),
    "boolean_mask": (lambda tf, u: tf.boolean_mask(u([None, 3]), u([None], "bool")), "float32 [None, 3]"),
    "boolean_mask, axis 1": (
        lambda tf, u: tf.boolean_mask(u([None, 3, 5]), u([3], "bool"), axis=1), "float32 [None, None, 5]"),
    "behind boolean_mask": (
        lambda tf, u: tf.nn.relu(tf.matmul(tf.boolean_mask(u([None, 3]), u([None], "bool")), u([3, 7]))),
        "float32 [None, 7]"),
    "scatter_nd": (lambda tf, u: tf.scatter_nd(u([None, 1], I32), u([None, 4]), [8, 4]), "float32 [8, 4]"),
    "tensor_scatter_nd_update": (
        lambda tf, u: tf.tensor_scatter_nd_update(u([None, 4]), u([None, 1], I32), u([None, 4])), "float32 [None, 4]"),
    # Layers
    "conv2d": (lambda tf, u: tf.nn.conv2d(u([None, 8, 8, 3]), F3, 2, "SAME"), "float32 [None, 4, 4, 4]"),
    "conv2d valid": (lambda tf, u: tf.nn.conv2d(u([None, 8, 8, 3]), F3, 2, "VALID"), "float32 [None, 3, 3, 4]"),
    "conv2d of images": (
        lambda tf, u: tf.nn.conv2d(u([None, None, None, 3]), F3, 2, "SAME"), "float32 [None, None, None, 4]"),
    "conv2d of images, valid": (
        lambda tf, u: tf.nn.conv2d(u([None, None, None, 3]), F3, 1, "VALID"), "float32 [None, None, None, 4]"),
    "conv2d of open channels": (
        lambda tf, u: tf.nn.conv2d(u([None, 8, 8, None]), F3, 1, "SAME"), "float32 [None, 8, 8, 4]"),
    "conv2d of anything": (lambda tf, u: tf.nn.conv2d(u(None), F3, 2, "SAME"), "float32 [None, None, None, 4]"),
    "conv2d by anything": (
        lambda tf, u: tf.nn.conv2d(u([None, 8, 8, 3]), u(None), 1, "SAME"), "float32 [None, 8, 8, None]"),
    "conv2d by open filters": (
        lambda tf, u: tf.nn.conv2d(u([None, 8, 8, 3]), u([3, 3, None, None]), 1, "SAME"), "float32 [None, 8, 8, None]"),
    "depthwise_conv2d": (
        lambda tf, u: tf.nn.depthwise_conv2d(u([None, None, None, 3]), F3, [1, 1, 1, 1], "SAME"),
        "float32 [None, None, None, 12]"),
    "conv2d_transpose": (
        lambda tf, u: tf.nn.conv2d_transpose(u([None, 4, 4, 4]), F3, [2, 8, 8, 3], 2, "SAME"),
        "float32 [None, 8, 8, 3]"),
    "conv2d_transpose of a batch": (lambda tf, u: using(u([None, 4, 4, 4]), lambda x: tf.nn.conv2d_transpose(
        x, F3, [tf.shape(x)[0], 8, 8, 3], 2, "SAME")), "float32 [None, 8, 8, 3]"),
    "max_pool": (lambda tf, u: tf.nn.max_pool2d(u([None, 8, None, 3]), 2, 2, "VALID"), "float32 [None, 4, None, 3]"),
    "max_pool same": (
        lambda tf, u: tf.nn.max_pool2d(u([None, None, None, 3]), 3, 2, "SAME"), "float32 [None, None, None, 3]"),
    "avg_pool": (lambda tf, u: tf.nn.avg_pool2d(u([None, 8, 8, None]), 2, 2, "SAME"), "float32 [None, 4, 4, None]"),
    "bias_add": (lambda tf, u: tf.nn.bias_add(u([None, None, 3]), u([3])), "float32 [None, None, 3]"),
    "bias_add, an open bias": (lambda tf, u: tf.nn.bias_add(u([None, 3]), u([None])), "float32 [None, 3]"),
    "bias_add to anything": (lambda tf, u: tf.nn.bias_add(u(None), u([3])), "float32 of any rank"),
    "softmax": (lambda tf, u: tf.nn.softmax(u([None, 10])), "float32 [None, 10]"),
    "softmax of anything": (lambda tf, u: tf.nn.softmax(u(None)), "float32 of any rank"),
    "log_softmax": (lambda tf, u: tf.nn.log_softmax(u([None, None, 10])), "float32 [None, None, 10]"),
    "relu6": (lambda tf, u: tf.nn.relu6(u([None, 10])), "float32 [None, 10]"),
    "crelu": (lambda tf, u: tf.nn.crelu(u([None, 10])), "float32 [None, 20]"),
    "gelu of anything": (lambda tf, u: tf.nn.gelu(u(None)), "float32 of any rank"),
    "batch_normalization": (
        lambda tf, u: tf.nn.batch_normalization(u([None, None, None, 3]), u([3]), u([3]), u([3]), u([3]), 1e-3),
        "float32 [None, None, None, 3]"),
    "fused_batch_norm": (
        lambda tf, u: tf.compat.v1.nn.fused_batch_norm(
            u([None, None, None, 3]), u([3]), u([3]), u([3]), u([3]), is_training=False)[0],
        "float32 [None, None, None, 3]"),
    "fused_batch_norm of anything": (
        lambda tf, u: tf.compat.v1.nn.fused_batch_norm(u(None), u([3]), u([3]), u([3]), u([3]), is_training=False)[0],
        "float32 [None, None, None, 3]"),
    "lrn": (
        lambda tf, u: tf.nn.local_response_normalization(u([None, None, None, 8])), "float32 [None, None, None, 8]"),
    "cross entropy": (
        lambda tf, u: tf.nn.softmax_cross_entropy_with_logits(u([None, 5]), u([None, 5])), "float32 [None]"),
    "sparse cross entropy": (
        lambda tf, u: tf.nn.sparse_softmax_cross_entropy_with_logits(u([None], I32), u([None, 5])), "float32 [None]"),
    "sigmoid cross entropy": (
        lambda tf, u: tf.nn.sigmoid_cross_entropy_with_logits(labels=u([None, 5]), logits=u([None, 5])),
        "float32 [None, 5]"),
    "dropout": (lambda tf, u: tf.nn.dropout(u([None, 5]), rate=0.5), "float32 [None, 5]"),
    "dropout of anything": (lambda tf, u: tf.nn.dropout(u(None), rate=0.5), "float32 of any rank"),
    "space_to_depth": (lambda tf, u: tf.nn.space_to_depth(u([None, 8, None, 3]), 2), "float32 [None, 4, None, 12]"),
    "depth_to_space": (lambda tf, u: tf.nn.depth_to_space(u([None, 8, None, 12]), 2), "float32 [None, 16, None, 3]"),
    "space_to_batch": (
        lambda tf, u: tf.space_to_batch(u([None, 8, 8, 3]), [2, 2], [[0, 0], [0, 0]]), "float32 [None, 4, 4, 3]"),
    "batch_to_space": (
        lambda tf, u: tf.batch_to_space(u([None, 4, 4, 3]), [2, 2], [[0, 0], [0, 0]]), "float32 [None, 8, 8, 3]"),
    "resize_bilinear": (
        lambda tf, u: tf.compat.v1.image.resize_bilinear(u([None, None, None, 3]), [10, 20]),
        "float32 [None, 10, 20, 3]"),
    "resize_bilinear, open": (
        lambda tf, u: tf.compat.v1.image.resize_bilinear(u([None, 5, 5, 3]), u([2], I32)),
        "float32 [None, None, None, 3]"),
    "resize_nearest_neighbor": (
        lambda tf, u: using(
            u([None, None, None, 3], I32),
            lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, tf.shape(x)[1:3] * 2)),
        "int32 [None, None, None, 3]"),
    # Random numbers
    "random": (lambda tf, u: tf.random.normal(u([2], I32)), "float32 [None, None]"),
    "random of a batch": (lambda tf, u: tf.random.uniform([tf.shape(u([None, 3]))[0], 7]), "float32 [None, 7]"),
    "random, any rank": (lambda tf, u: tf.random.uniform(u([None], I32)), "float32 of any rank"),
    # Control flow
    "cond": (
        lambda tf, u: tf.cond(u([], "bool"), lambda: tf.ones([2, 3]), lambda: tf.ones([4, 3])), "float32 [None, 3]"),
    "cond of ranks": (
        lambda tf, u: tf.cond(u([], "bool"), lambda: tf.ones([2, 3]), lambda: tf.ones([4])), "float32 of any rank"),
    "cond of one": (
        lambda tf, u: using(u([None, 3]), lambda x: tf.cond(u([], "bool"), lambda: x + 1.0, lambda: x * 2.0)),
        "float32 [None, 3]"),
    "while": (
        lambda tf, u: tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), (0, u([None, 3])))[1],
        "float32 [None, 3]"),
    "while that grows": (lambda tf, u: tf.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x, x], 0)), (0, u([1, 3])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))[1], "float32 [None, 3]"),
    "in the body of a while": (lambda tf, u: _inside(tf, u([1, 3])), "float32 [None, 3]"),
    "map_fn": (lambda tf, u: tf.map_fn(lambda row: row[:2], u([None, 5])), "float32 [None, 2]"),
    "function": (
        lambda tf, u: tf.function(lambda x: tf.matmul(x, x, transpose_b=True))(u([None, 5])), "float32 [None, None]"),
}  # fmt: skip
"""Ops, and what TensorFlow 2.21 says of their results."""

DIFFERENCES: dict[str, tuple[Build, str, str]] = {
    "norm of anything": (lambda tf, u: tf.norm(u(None)), "float32 of any rank", "float32 []"),
    "reshape, rest": (
        lambda tf, u: using(u([None, 3, 4]), lambda x: tf.reshape(x, [tf.shape(x)[0], -1])), "float32 [None, None]",
        "float32 [None, 12]"),
    "scatter_nd to an open shape": (
        lambda tf, u: tf.scatter_nd(u([None, 1], I32), u([None, 4]), u([2], I32)), "float32 [None, None]",
        "float32 [None, 4]"),
    "max_pool of anything": (
        lambda tf, u: tf.nn.max_pool2d(u(None), 2, 2, "SAME"), "float32 [None, None, None, None]",
        "float32 of any rank"),
}  # fmt: skip
"""Ops of whose results TensorFlow and treadle say different things, both true."""

MISFITS: dict[str, tuple[Build, type[Exception]]] = {
    "sizes of a sum": (lambda tf, u: u([None, 3]) + u([None, 4]), ValueError),
    "sizes of a sum beside open ones": (lambda tf, u: u([None, None, 3]) + u([None, 4]), ValueError),
    "types of a sum": (lambda tf, u: tf.add(u([None, 3]), u([None, 3], I32)), TypeError),
    "inner sizes": (lambda tf, u: tf.matmul(u([None, 3]), u([4, None])), ValueError),
    "batches": (lambda tf, u: tf.matmul(u([2, None, 3]), u([4, 3, None])), ValueError),
    "a vector times a matrix": (lambda tf, u: tf.matmul(u([None]), u([3, None])), ValueError),
    "channels": (lambda tf, u: tf.nn.conv2d(u([None, None, None, 4]), F3, 1, "SAME"), ValueError),
    "a convolution of rank 2": (lambda tf, u: tf.nn.conv2d(u([None, 8]), F3, 1, "SAME"), ValueError),
    "a window larger than the image": (lambda tf, u: tf.nn.conv2d(u([None, 2, 2, 3]), F3, 1, "VALID"), ValueError),
    "ranks to concatenate": (lambda tf, u: tf.concat([u([None, 3]), u([None, 3, 1])], 0), ValueError),
    "sizes to concatenate": (lambda tf, u: tf.concat([u([None, 3]), u([None, 4])], 0), ValueError),
    "an axis to concatenate": (lambda tf, u: tf.concat([u([None, 3]), u([None, 3])], 2), ValueError),
    "shapes to stack": (lambda tf, u: tf.stack([u([None, 3]), u([None, 4])]), ValueError),
    "elements to reshape": (lambda tf, u: tf.reshape(u([4, 6]), [5, -1]), ValueError),
    "a squeezed axis": (lambda tf, u: tf.squeeze(u([None, 3]), [1]), ValueError),
    "an order of axes": (lambda tf, u: tf.transpose(u([None, 3]), [0, 2]), ValueError),
    "a new axis": (lambda tf, u: tf.expand_dims(u([None, 3]), 5), ValueError),
    "an axis to reduce": (lambda tf, u: tf.reduce_sum(u([None, 3]), 2), ValueError),
    "multiples": (lambda tf, u: tf.tile(u([None, 3]), [1, 2, 3]), ValueError),
    "paddings": (lambda tf, u: tf.pad(u([None, 3]), [[1, 1]]), ValueError),
    "an index": (lambda tf, u: u([None, 3])[0, 3], ValueError),
    "too many indices": (lambda tf, u: u([None, 3])[0, 0, 0], ValueError),
    "floats as indices": (lambda tf, u: tf.gather(u([None, 3]), u([2])), TypeError),
    "a bias": (lambda tf, u: tf.nn.bias_add(u([None, 3]), u([4])), ValueError),
    "a mask": (lambda tf, u: tf.boolean_mask(u([None, 3]), u([None, 4], "bool")), ValueError),
    "as many as there are": (lambda tf, u: tf.nn.top_k(u([None, 3]), 5), ValueError),
    "a block": (lambda tf, u: tf.nn.space_to_depth(u([None, 7, None, 3]), 2), ValueError),
    "parts": (lambda tf, u: tf.split(u([None, 7]), 2, 1), ValueError),
    "unknown parts": (lambda tf, u: tf.unstack(u([None, 7])), ValueError),
    "a number of parts": (lambda tf, u: tf.unstack(u([None, 7]), 6, 1), ValueError),
    "a stated shape": (lambda tf, u: tf.ensure_shape(u([None, 3]), [None, 4]), ValueError),
    "labels": (
        lambda tf, u: tf.nn.sigmoid_cross_entropy_with_logits(labels=u([None, 4]), logits=u([None, 3])), ValueError),
    "a sum in a product": (lambda tf, u: tf.einsum("ij,jk->ik", u([None, 3]), u([4, None])), ValueError),
    "a function": (lambda tf, u: tf.function(lambda x: tf.matmul(x, x))(u([3, 5])), ValueError),
    "a loop": (lambda tf, u: tf.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x, x], 0)), (0, u([1, 3]))), ValueError),
}  # fmt: skip
"""Operands that do not fit whatever the open sizes are: the class of the error while the graph is built."""
