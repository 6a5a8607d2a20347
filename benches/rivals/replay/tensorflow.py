"""The ops of the benchmarks' models in TensorFlow.

TensorFlow's CPU kernels take images as NHWC. In a graph with convolutions every rank-4 tensor therefore has that
layout, the graph's inputs included: no transpose is timed, except where an image is flattened. Outputs are returned as
views in the model's order. Reshape and Transpose use the model's axes, so they do not apply to images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import helper


def nhwc(array: Any) -> Any:
    """Returns an NCHW array as a contiguous NHWC one; arrays of other ranks unchanged."""
    return np.ascontiguousarray(np.transpose(array, (0, 2, 3, 1))) if array.ndim == 4 else array


def nchw(array: Any) -> Any:
    """Returns the NCHW view of an NHWC array; arrays of other ranks unchanged."""
    return np.transpose(array, (0, 3, 1, 2)) if array.ndim == 4 else array


def _same_or_explicit(pads: Any) -> list[list[int]]:
    return [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]


def _conv(
    x: Any, w: Any, b: Any = None, *, strides: Any = (1, 1), pads: Any = (0,) * 4, group: int = 1, **_: Any
) -> Any:
    step, padding = [1, *strides, 1], _same_or_explicit(pads)
    if group == 1 or w.shape[1] != 1:
        y = tf.nn.conv2d(x, tf.constant(w.transpose(2, 3, 1, 0)), step, padding)
    else:
        padded = tf.pad(x, padding) if any(pads) else x
        y = tf.nn.depthwise_conv2d(padded, tf.constant(w.transpose(2, 3, 0, 1)), step, "VALID")
    return y if b is None else tf.nn.bias_add(y, b)


def _max_pool(x: Any, *, kernel_shape: Any, strides: Any, pads: Any = (0,) * 4, ceil_mode: int = 0, **_: Any) -> Any:
    ends = list(pads)
    for i in range(2):
        size = x.shape[1 + i] + pads[i] + pads[2 + i] - kernel_shape[i]
        ends[2 + i] += -size % strides[i] if ceil_mode else 0
    return tf.nn.max_pool2d(x, kernel_shape, strides, _same_or_explicit(ends) if any(ends) else "VALID")


def _gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, **options: int) -> Any:
    product = tf.linalg.matmul(a, b, transpose_a=bool(options.get("transA")), transpose_b=bool(options.get("transB")))
    product = product if alpha == 1.0 else alpha * product
    return product if c is None else product + (c if beta == 1.0 else beta * c)


def _layer_norm(x: Any, scale: Any, bias: Any = 0.0, *, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Any:
    mean, variance = tf.nn.moments(x, [axis], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, bias, scale, epsilon)


def _channels_last(axis: int, rank: int) -> int:
    return (0, 3, 1, 2)[axis] if rank == 4 else axis


def _flatten(x: Any, *, axis: int = 1) -> Any:
    x = tf.convert_to_tensor(x)
    if x.shape.rank == 4 and (x.shape[1], x.shape[2]) != (1, 1):
        x = tf.transpose(x, (0, 3, 1, 2))
    return tf.reshape(x, (int(np.prod(x.shape[:axis])), -1))


def _slice(x: Any, starts: Any, ends: Any, axes: Any) -> Any:
    begin, size = [0] * x.shape.rank, list(x.shape)
    for start, end, axis in zip(starts, ends, axes, strict=True):
        place = _channels_last(int(axis), x.shape.rank)
        begin[place], size[place] = int(start), int(end - start)
    return tf.slice(x, begin, size)


def _batch_norm(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, **_: Any) -> Any:
    return tf.nn.batch_normalization(x, mean, variance, bias, scale, epsilon)


OPS: dict[str, Callable[..., Any]] = {
    "Add": tf.add,
    "And": tf.logical_and,
    "AveragePool": lambda x, kernel_shape, strides, **_: tf.nn.avg_pool2d(x, kernel_shape, strides, "VALID"),
    "BatchNormalization": _batch_norm,
    "Cast": lambda x, to, **_: tf.cast(x, helper.tensor_dtype_to_np_dtype(to)),
    "Clip": tf.clip_by_value,
    "Concat": lambda *xs, axis: tf.concat(xs, _channels_last(axis, xs[0].shape.rank)),
    "Conv": _conv,
    "Div": tf.divide,
    "Erf": tf.math.erf,
    "Expand": lambda x, shape: tf.broadcast_to(x, np.broadcast_shapes(tuple(x.shape), tuple(shape))),
    "Flatten": _flatten,
    "Gather": lambda x, indices, axis=0: tf.gather(x, indices, axis=axis),
    "GatherElements": lambda x, indices, axis=0: tf.gather(x, indices, axis=axis, batch_dims=axis),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: tf.reduce_mean(x, (1, 2), keepdims=True),
    "GreaterOrEqual": tf.greater_equal,
    "Identity": lambda x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": tf.linalg.matmul,
    "MaxPool": _max_pool,
    "Mul": tf.multiply,
    "ReduceSum": lambda x, axes, keepdims=1: tf.reduce_sum(x, [int(a) for a in axes], bool(keepdims)),
    "Relu": tf.nn.relu,
    "Reshape": lambda x, shape, **_: tf.reshape(x, [x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)]),
    "Resize": lambda x, _roi, scales, **_: tf.repeat(tf.repeat(x, int(scales[2]), 1), int(scales[3]), 2),
    "Sigmoid": tf.sigmoid,
    "Slice": _slice,
    "Softmax": lambda x, axis=-1: tf.nn.softmax(x, axis),
    "Split": lambda x, sizes, axis: tf.split(x, [int(n) for n in sizes], axis),
    "Tanh": tf.tanh,
    "Transpose": tf.transpose,
    "Where": tf.where,
}
