"""The ops of the benchmarks' models in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from onnx import helper


def _conv(
    x: Any, w: Any, b: Any = None, *, strides: Any = (1, 1), pads: Any = (0,) * 4, group: int = 1, **_: Any
) -> Any:
    y = lax.conv_general_dilated(
        x, w, tuple(strides), [(pads[0], pads[2]), (pads[1], pads[3])], feature_group_count=group
    )
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def _max_pool(x: Any, *, kernel_shape: Any, strides: Any, pads: Any = (0,) * 4, ceil_mode: int = 0, **_: Any) -> Any:
    padding = [(0, 0), (0, 0)]
    for i in range(2):
        size = x.shape[2 + i] + pads[i] + pads[2 + i] - kernel_shape[i]
        more = -size % strides[i] if ceil_mode else 0
        padding.append((pads[i], pads[2 + i] + more))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *kernel_shape), (1, 1, *strides), padding)


def _gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, **options: int) -> Any:
    product = jnp.matmul(a.T if options.get("transA") else a, b.T if options.get("transB") else b)
    product = product if alpha == 1.0 else alpha * product
    return product if c is None else product + (c if beta == 1.0 else beta * c)


def _layer_norm(x: Any, scale: Any, bias: Any = 0.0, *, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon) * scale + bias


def _softmax(x: Any, *, axis: int = -1) -> Any:
    return jax.nn.softmax(x, axis)


def _slice(x: Any, starts: Any, ends: Any, axes: Any) -> Any:
    for start, end, axis in zip(starts, ends, axes, strict=True):
        x = lax.slice_in_dim(x, int(start), int(end), axis=int(axis))
    return x


def _batch_norm(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, **_: Any) -> Any:
    factor = scale * lax.rsqrt(variance + epsilon)
    return x * factor.reshape(1, -1, 1, 1) + (bias - mean * factor).reshape(1, -1, 1, 1)


def _average_pool(x: Any, *, kernel_shape: Any, strides: Any, **_: Any) -> Any:
    total = lax.reduce_window(x, 0.0, lax.add, (1, 1, *kernel_shape), (1, 1, *strides), "VALID")
    return total / np.prod(kernel_shape)


OPS: dict[str, Callable[..., Any]] = {
    "Add": jnp.add,
    "And": jnp.logical_and,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": lambda x, to, **_: x.astype(helper.tensor_dtype_to_np_dtype(to)),
    "Clip": jnp.clip,
    "Concat": lambda *xs, axis: jnp.concatenate(xs, axis),
    "Conv": _conv,
    "Div": jnp.divide,
    "Erf": lax.erf,
    "Expand": lambda x, shape: jnp.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Flatten": lambda x, axis=1: x.reshape(int(np.prod(x.shape[:axis])), -1),
    "Gather": lambda x, indices, axis=0: jnp.take(x, indices, axis, mode="clip"),
    "GatherElements": lambda x, indices, axis=0: jnp.take_along_axis(x, indices, axis, mode="clip"),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "GreaterOrEqual": jnp.greater_equal,
    "Identity": lambda x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": jnp.matmul,
    "MaxPool": _max_pool,
    "Mul": jnp.multiply,
    "ReduceSum": lambda x, axes, keepdims=1: x.sum(tuple(int(a) for a in axes), keepdims=bool(keepdims)),
    "Relu": jax.nn.relu,
    "Reshape": lambda x, shape, **_: x.reshape(*(x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape))),
    "Resize": lambda x, _roi, _twice, **_: x.repeat(2, 2).repeat(2, 3),  # nearest by two, the only kind in the models
    "Sigmoid": jax.nn.sigmoid,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": lambda x, sizes, axis: jnp.split(x, np.cumsum(sizes)[:-1], axis),
    "Tanh": jnp.tanh,
    "Transpose": lambda x, perm: x.transpose(perm),
    "Where": jnp.where,
}
