"""Ops as users of TensorFlow write them, with arrays to run them on; compared with TensorFlow where it is installed.

A case takes TensorFlow, its compat.v1, and a tensor for each array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RNG = np.random.default_rng(11)
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Any:
    return (RNG.random(shape) + 0.5).astype(np.float32)


X, Y = f32(4, 6), f32(4, 6)
P = positive(4, 6)
ROW = f32(6)
N = RNG.integers(-9, 9, (4, 6)).astype(np.int32)
M = RNG.integers(1, 5, (4, 6)).astype(np.int32)
IDS = np.array([[2, 0], [1, 3]], np.int32)
IMAGE = f32(2, 9, 7, 4)
WIDE = f32(2, 11, 11, 3)
EVEN = f32(2, 8, 6, 4)
CUBE = f32(2, 5, 6, 4)
BATCHES = f32(3, 4, 5), f32(3, 5, 2)
K33, K11, K33D = f32(3, 3, 4, 5), f32(1, 1, 4, 6), f32(3, 3, 4, 2)
C4 = positive(4), f32(4), f32(4), positive(4)

UNARY = (
    "abs", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "floor", "ceil", "round", "sign",
    "negative", "square", "sigmoid", "softplus", "erf", "erfc", "asinh",
)  # fmt: skip
OF_POSITIVE = ("log", "log1p", "sqrt", "rsqrt", "reciprocal")
ACTIVATIONS = ("relu", "relu6", "elu", "selu", "leaky_relu", "softmax", "log_softmax", "softsign", "gelu", "swish")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference")
INTEGER = ("add", "subtract", "multiply", "floordiv", "floormod", "truncatediv", "truncatemod", "maximum")
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
REDUCE = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")


def _unary(name: str) -> Callable[..., Any]:
    return lambda tf, v1, x: getattr(tf.math, name)(x)


def _nn(name: str) -> Callable[..., Any]:
    return lambda tf, v1, x: getattr(tf.nn, name)(x)


def _binary(name: str) -> Callable[..., Any]:
    return lambda tf, v1, x, y: getattr(v1, name)(x, y)


def _reduce(name: str, axis: Any, keep: bool) -> Callable[..., Any]:
    return lambda tf, v1, x: getattr(tf, name)(x, axis=axis, keepdims=keep)


def _conv(strides: Any, padding: Any, kernel: Any, dilations: Any = 1) -> Case:
    return lambda tf, v1, x: tf.nn.conv2d(x, kernel, strides, padding, dilations=dilations), (IMAGE,)


def _pool(kind: str, size: Any, strides: Any, padding: Any) -> Case:
    return lambda tf, v1, x: getattr(tf.nn, kind)(x, size, strides, padding), (IMAGE,)


def _cond(tf: Any, v1: Any, x: Any) -> Any:
    flag = v1.placeholder_with_default(False, [], "training")
    return v1.cond(flag, lambda: tf.nn.dropout(x, rate=0.5), lambda: x * 2.0)


def _choose(tf: Any, v1: Any, x: Any) -> Any:
    return v1.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0)


def _norm(tf: Any, v1: Any, x: Any) -> Any:
    scale, offset, mean, variance = C4
    return v1.nn.fused_batch_norm(x, scale, offset, mean, variance, 0.01, is_training=False)[0]


def _fully_connected(tf: Any, v1: Any, x: Any) -> Any:
    shape = tf.shape(x)
    flat = tf.reshape(x, [shape[0], shape[1] * shape[2] * shape[3]])
    return tf.nn.bias_add(tf.matmul(flat, np.ones((9 * 7 * 4, 3), np.float32) / 100), np.float32([1, 2, 3]))


def _padded(tf: Any, v1: Any, x: Any) -> Any:
    return tf.nn.conv2d(tf.pad(x, [[0, 0], [0, 1], [0, 1], [0, 0]]), K33, 2, "VALID")


def _upsampled(tf: Any, v1: Any, x: Any) -> Any:
    shape = tf.shape(x)
    wanted = tf.stack([shape[0], 18, 14, 5])
    return tf.nn.conv2d_transpose(x, K33.transpose(0, 1, 3, 2), wanted, 2, "SAME")


def _after(tf: Any, v1: Any, x: Any) -> Any:
    with v1.control_dependencies([v1.assert_greater(tf.reduce_sum(x), -1e9)]):
        return tf.identity_n([x * 2, x + 1])[1]


CASES: dict[str, Case] = {
    **{name: (_unary(name), (X,)) for name in UNARY},
    **{name: (_unary(name), (P,)) for name in OF_POSITIVE},
    **{f"nn {name}": (_nn(name), (X,)) for name in ACTIVATIONS},
    **{name: (_binary(name), (X, Y)) for name in BINARY},
    **{f"{name} with a row": (_binary(name), (X, ROW)) for name in BINARY},
    **{f"{name} of integers": (_binary(name), (N, M)) for name in INTEGER},
    **{name: (_binary(name), (N, M)) for name in COMPARE},
    **{f"{name} of one axis": (_reduce(name, 1, True), (P,)) for name in REDUCE},
    **{f"{name} of all": (_reduce(name, None, False), (P,)) for name in REDUCE},
    **{f"{name} of axes": (_reduce(name, [1, -1], False), (CUBE,)) for name in REDUCE},
    "reduce over no axes": (_reduce("reduce_sum", [], False), (X,)),
    "reduce_any": (lambda tf, v1, x: tf.reduce_any(x > 1, 1), (X,)),
    "reduce_all": (lambda tf, v1, x: tf.reduce_all(x > -9), (X,)),
    "is_finite": (lambda tf, v1, x: tf.math.is_finite(1 / tf.maximum(x, 0)), (X,)),
    "logic": (lambda tf, v1, x, y: tf.logical_and(x > 0, tf.logical_or(y > 0, tf.logical_not(x > 1))), (X, Y)),
    "pow": (lambda tf, v1, x: tf.pow(x, 1.5), (P,)),
    "add_n": (lambda tf, v1, x, y: tf.add_n([x, y, x]), (X, Y)),
    "div_no_nan": (lambda tf, v1, x, y: tf.math.divide_no_nan(x, tf.maximum(y, 0)), (X, Y)),
    "clip_by_value": (lambda tf, v1, x: tf.raw_ops.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=0.5), (X,)),
    "cast": (lambda tf, v1, x: tf.cast(tf.cast(x * 3, tf.int32), tf.float64), (X,)),
    "cast from bool": (lambda tf, v1, x: tf.cast(x > 0, tf.float32), (X,)),
    "argmax": (lambda tf, v1, x: tf.argmax(x, 1), (X,)),
    "argmin to int32": (lambda tf, v1, x: tf.argmin(x, 0, tf.int32), (X,)),
    "cumsum": (lambda tf, v1, x: tf.cumsum(x, 1, exclusive=True, reverse=True), (X,)),
    "top_k": (lambda tf, v1, x: tf.nn.top_k(x, 3), (X,)),
    "matmul": (lambda tf, v1, x, y: tf.matmul(x, y, transpose_b=True), (X, Y)),
    "matmul, left transposed": (lambda tf, v1, x, y: tf.matmul(x, y, transpose_a=True), (X, Y)),
    "batch matmul": (lambda tf, v1, x, y: tf.matmul(x, y), BATCHES),
    "batch matmul with adjoints": (
        lambda tf, v1, x, y: tf.matmul(x, y, adjoint_a=True, adjoint_b=True),
        (f32(3, 5, 4), f32(3, 2, 5)),
    ),
    "batch matmul that broadcasts": (lambda tf, v1, x, y: tf.matmul(x, y), (f32(2, 1, 4, 5), f32(3, 5, 2))),
    "einsum": (lambda tf, v1, x, y: tf.einsum("bij,bjk->bik", x, y), BATCHES),
    "einsum of heads": (lambda tf, v1, x: tf.einsum("abcd,cde->abe", x, f32(6, 4, 3)), (CUBE,)),
    "bias_add": (lambda tf, v1, x: tf.nn.bias_add(x, f32(6)), (X,)),
    "conv": _conv(1, "SAME", K33),
    "conv, valid": _conv(1, "VALID", K33),
    "conv with strides": _conv(2, "SAME", K33),
    "conv with strides, valid": _conv([1, 2, 3, 1], "VALID", K33),
    "conv 1x1": _conv(1, "SAME", K11),
    "conv 1x1 with strides": _conv(2, "SAME", K11),
    "conv, dilated": _conv(1, "SAME", K33, 2),
    "conv with explicit pads": _conv(1, [[0, 0], [1, 2], [0, 3], [0, 0]], K33),
    "conv in groups": (lambda tf, v1, x: tf.nn.conv2d(x, f32(3, 3, 2, 6), 1, "SAME"), (IMAGE,)),
    "conv of few channels": (lambda tf, v1, x: tf.nn.relu(tf.nn.conv2d(x, f32(5, 5, 3, 8), 2, "SAME")), (WIDE,)),
    "conv of a padded image": (_padded, (IMAGE,)),
    "depthwise conv": (lambda tf, v1, x: tf.nn.depthwise_conv2d(x, K33D, [1, 1, 1, 1], "SAME"), (IMAGE,)),
    "depthwise conv with strides": (
        lambda tf, v1, x: tf.nn.depthwise_conv2d(x, K33D[..., :1], [1, 2, 2, 1], "VALID"),
        (IMAGE,),
    ),
    "dilated conv by blocks": (lambda tf, v1, x: tf.nn.atrous_conv2d(x, K33, 2, "SAME"), (EVEN,)),
    "conv transpose": (_upsampled, (IMAGE,)),
    "conv3d": (lambda tf, v1, x: tf.nn.conv3d(x, f32(2, 3, 3, 4, 3), [1, 1, 2, 2, 1], "SAME"), (f32(2, 4, 6, 6, 4),)),
    "fused batch norm": (_norm, (IMAGE,)),
    "conv, norm and relu6": (
        lambda tf, v1, x: tf.nn.relu6(_norm(tf, v1, tf.nn.conv2d(x, f32(3, 3, 4, 4), 1, "SAME"))),
        (IMAGE,),
    ),
    "max pool": _pool("max_pool2d", 2, 2, "VALID"),
    "max pool, same": _pool("max_pool2d", 3, 2, "SAME"),
    "average pool": _pool("avg_pool2d", 2, 2, "VALID"),
    "average pool, same": _pool("avg_pool2d", 3, 2, "SAME"),
    "local response normalization": (
        lambda tf, v1, x: tf.nn.local_response_normalization(x, 2, 1.0, 0.1, 0.75),
        (IMAGE,),
    ),
    "pad": (lambda tf, v1, x: tf.pad(x, [[1, 0], [2, 3]]), (X,)),
    "pad with a value": (lambda tf, v1, x: tf.pad(x, [[1, 0], [2, 3]], constant_values=2.5), (X,)),
    "pad by reflection": (lambda tf, v1, x: tf.pad(x, [[1, 0], [2, 3]], "REFLECT"), (X,)),
    "pad by symmetry": (lambda tf, v1, x: tf.pad(x, [[1, 0], [2, 3]], "SYMMETRIC"), (X,)),
    "concat": (lambda tf, v1, x, y: tf.concat([x, y], -1), (X, Y)),
    "stack": (lambda tf, v1, x, y: tf.stack([x, y], 1), (X, Y)),
    "unstack": (lambda tf, v1, x: tf.unstack(x, 6, 1)[2], (X,)),
    "split": (lambda tf, v1, x: tf.split(x, 3, 1)[1], (X,)),
    "split into sizes": (lambda tf, v1, x: tf.split(x, [1, -1, 2], 1)[1], (X,)),
    "reshape": (lambda tf, v1, x: tf.reshape(x, [2, -1]), (X,)),
    "flatten and connect": (_fully_connected, (IMAGE,)),
    "squeeze": (lambda tf, v1, x: tf.squeeze(tf.expand_dims(x, 1), [1]), (X,)),
    "expand_dims": (lambda tf, v1, x: tf.expand_dims(x, -1), (X,)),
    "transpose": (lambda tf, v1, x: tf.transpose(x, [0, 3, 1, 2]), (CUBE,)),
    "tile": (lambda tf, v1, x: tf.tile(x, [2, 3]), (X,)),
    "reverse": (lambda tf, v1, x: tf.reverse(x, [1]), (X,)),
    "slice": (lambda tf, v1, x: tf.slice(x, [1, 2], [2, -1]), (X,)),
    "index": (lambda tf, v1, x: x[1:, ::2][..., None, 0], (X,)),
    "index from the end": (lambda tf, v1, x: x[-1, ::-1], (X,)),
    "index with ellipsis": (lambda tf, v1, x: x[..., -3:-1], (CUBE,)),
    "index with a new axis": (lambda tf, v1, x: x[:, tf.newaxis, :, 1], (CUBE,)),
    "gather": (lambda tf, v1, x: tf.gather(x, [2, 0], axis=1), (X,)),
    "embedding": (lambda tf, v1, i: tf.nn.embedding_lookup(f32(4, 5), i), (IDS,)),
    "gather in batches": (lambda tf, v1, x: tf.gather(x, IDS, axis=1, batch_dims=1), (f32(2, 4, 3),)),
    "gather_nd": (lambda tf, v1, x: tf.gather_nd(x, IDS), (X,)),
    "scatter_nd": (lambda tf, v1, x: tf.scatter_nd([[1], [3]], x[:2], [5, 6]), (X,)),
    "one_hot": (lambda tf, v1, i: tf.one_hot(i, 4, 2.0, -1.0), (IDS,)),
    "one_hot on the first axis": (lambda tf, v1, i: tf.one_hot(i, 5, axis=0), (IDS,)),
    "shape and fill": (lambda tf, v1, x: tf.fill(tf.shape(x), 7.0) + x, (X,)),
    "range": (lambda tf, v1, x: tf.range(tf.shape(x)[1]), (X,)),
    "zeros and ones like": (lambda tf, v1, x: tf.zeros_like(x) - tf.ones_like(x), (X,)),
    "broadcast_to": (lambda tf, v1, x: tf.broadcast_to(x, [3, 4, 6]), (X,)),
    "where": (lambda tf, v1, x, y: tf.where(x > 0, x, y), (X, Y)),
    "select": (lambda tf, v1, x, y: v1.where(x > 0, x, y), (X, Y)),
    "select of rows": (lambda tf, v1, x, y: tf.raw_ops.Select(condition=x[:, 0] > 0, x=x, y=y), (X, Y)),
    "where finds": (lambda tf, v1, x: tf.where(x > 1), (X,)),
    "boolean_mask": (lambda tf, v1, x: tf.boolean_mask(x, x > 0) * 2, (X,)),
    "ops behind a mask": (lambda tf, v1, x: tf.nn.softmax(tf.reshape(tf.boolean_mask(x, x > 0), [1, -1]))[:, :3], (X,)),
    "band part": (lambda tf, v1, x: tf.linalg.band_part(x, 1, 2), (X,)),
    "bilinear resize": (lambda tf, v1, x: v1.image.resize_bilinear(x, [13, 5]), (IMAGE,)),
    "bilinear resize, corners": (lambda tf, v1, x: v1.image.resize_bilinear(x, [13, 5], align_corners=True), (IMAGE,)),
    "bilinear resize, half pixels": (
        lambda tf, v1, x: v1.image.resize_bilinear(x, [18, 14], half_pixel_centers=True),
        (IMAGE,),
    ),
    "nearest resize": (lambda tf, v1, x: v1.image.resize_nearest_neighbor(x, [18, 14]), (IMAGE,)),
    "nearest resize, corners": (
        lambda tf, v1, x: v1.image.resize_nearest_neighbor(x, [17, 5], align_corners=True),
        (IMAGE,),
    ),
    "nearest resize, half pixels": (
        lambda tf, v1, x: v1.image.resize_nearest_neighbor(x, [13, 5], half_pixel_centers=True),
        (IMAGE,),
    ),
    "bicubic resize": (lambda tf, v1, x: v1.image.resize_bicubic(x, [13, 11]), (IMAGE,)),
    "bicubic resize, half pixels": (
        lambda tf, v1, x: v1.image.resize_bicubic(x, [13, 11], half_pixel_centers=True),
        (IMAGE,),
    ),
    "depth to space": (lambda tf, v1, x: tf.nn.depth_to_space(x, 2), (EVEN,)),
    "space to depth": (lambda tf, v1, x: tf.nn.space_to_depth(x, 2), (EVEN,)),
    "space to batch and back": (
        lambda tf, v1, x: tf.batch_to_space(
            tf.space_to_batch(x, [2, 2], [[1, 1], [0, 2]]) * 2, [2, 2], [[1, 1], [0, 2]]
        ),
        (EVEN,),
    ),
    "branch that is never taken": (_cond, (X,)),
    "branch": (_choose, (X,)),
    "control inputs": (_after, (X,)),
}


V2 = {"branch", "branch that is never taken"}
"""Cases that are also frozen with the control flow of TensorFlow 2."""
