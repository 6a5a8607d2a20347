"""Activations, normalizations and losses."""

from __future__ import annotations

import math
from typing import Any

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.conv import DATA_FORMATS, Layout
from treadle.frontends.tensorflow.rules.gather import nonnegative
from treadle.frontends.tensorflow.rules.kinds import Same, Value
from treadle.frontends.tensorflow.rules.reduce import reduced


def relu6(e: Emitter, features: Same) -> Value:
    return e.add("min", e.add("relu", features), e.scalar(6, features))


def leaky_relu(e: Emitter, features: Same, alpha: float = 0.2) -> Value:
    """Return alpha times the negative features, and the others as they are; integers as float32."""
    if features.known_dtype.is_integer:
        features = e.cast(features, dtypes.f32)
    scaled = e.add("mul", features, e.scalar(alpha, features))
    if 0 <= alpha <= 1:
        return e.add("max", scaled, features)
    return e.add("where", e.add("gt", features, e.scalar(0, features)), features, scaled)


def crelu(e: Emitter, features: Same, axis: int = -1) -> Value:
    """Return relu of the features and of their negatives, concatenated along `axis`."""
    both = e.add("concat", features, e.add("neg", features), axis=e.axis(features, int(axis)))
    return e.add("relu", both)


def l2_loss(e: Emitter, t: Same) -> Value:
    """Return half the sum of squares."""
    return e.add("mul", reduced(e, "reduce_sum", e.add("mul", t, t), None, keepdims=False), e.scalar(0.5, t))


def elu(e: Emitter, features: Same) -> Value:
    negative = e.add("expm1", e.add("min", features, e.scalar(0, features)))
    return e.add("where", e.add("gt", features, e.scalar(0, features)), features, negative)


def selu(e: Emitter, features: Same) -> Value:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    negative = e.add("expm1", e.add("min", features, e.scalar(0, features)))
    bent = e.add("mul", negative, e.scalar(alpha, features))
    both = e.add("where", e.add("gt", features, e.scalar(0, features)), features, bent)
    return e.add("mul", both, e.scalar(scale, features))


def gelu(e: Emitter, features: Same, approximate: bool = False) -> Value:
    half = e.add("mul", features, e.scalar(0.5, features))
    if approximate:
        cube = e.add("mul", e.add("mul", features, features), features)
        inner = e.add("add", features, e.add("mul", cube, e.scalar(0.044715, features)))
        bend = e.add("tanh", e.add("mul", inner, e.scalar(math.sqrt(2 / math.pi), features)))
    else:
        bend = e.add("erf", e.add("div", features, e.scalar(math.sqrt(2), features)))
    return e.add("mul", half, e.add("add", bend, e.scalar(1, features)))


def swish(e: Emitter, features: Same, beta: Same | None = None) -> Value:
    """Return features * sigmoid(beta * features); beta is 1 unless given."""
    scaled = features if beta is None else e.add("mul", features, beta)
    return e.add("mul", features, e.add("sigmoid", scaled))


def softsign(e: Emitter, features: Same) -> Value:
    return e.add("div", features, e.add("add", e.add("abs", features), e.scalar(1, features)))


def softmax(e: Emitter, logits: Same, axis: int = -1) -> Value:
    return e.add("softmax", logits, axis=e.axis(logits, int(axis)))


def log_softmax(e: Emitter, logits: Same, axis: int = -1) -> Value:
    return e.add("log_softmax", logits, axis=e.axis(logits, int(axis)))


def bias_add(e: Emitter, value: Same, bias: Same, data_format: str | None = None) -> Value:
    if data_format not in (None, "N...C", "NC...", *DATA_FORMATS):
        raise ValueError(f"bias_add: data_format: wanted one of {', '.join(DATA_FORMATS)}, got {data_format!r}")
    first = data_format is not None and data_format.startswith("NC")
    shape, numbers = e.shape(value), e.shape(bias)
    if len(shape) < 2 + first or len(numbers) != 1:
        raise ValueError(
            f"bias_add: wanted ranks of at least {2 + first} and of 1, got shapes {list(shape)} and {list(numbers)}"
        )
    if numbers[0] != shape[1 if first else -1]:
        raise ValueError(f"bias_add: wanted a bias of {shape[1 if first else -1]} numbers, got {numbers[0]}")
    if first:
        bias = e.reshape(bias, (-1, *(1,) * (e.rank(value) - 2)))
    return e.add("add", value, bias)


def batch_normalization(
    e: Emitter,
    x: Same,
    mean: Same,
    variance: Same,
    offset: Same | None,
    scale: Same | None,
    variance_epsilon: float,
) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset, with broadcasting."""
    factor = e.add("rsqrt", e.add("add", variance, e.scalar(variance_epsilon, x)))
    if scale is not None:
        factor = e.add("mul", factor, scale)
    scaled = e.add("mul", e.add("sub", x, mean), factor)
    return scaled if offset is None else e.add("add", scaled, offset)


def fused_batch_norm(
    e: Emitter,
    x: Same,
    scale: Same,
    offset: Same,
    mean: Same,
    variance: Same,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = False,
) -> list[Value]:
    """Normalize with the given mean and variance, which are returned too. Training is refused."""
    if is_training:
        raise ValueError("fused_batch_norm: treadle runs inference; wanted is_training=False")
    e.expect_rank(x, len(data_format))
    if e.rank(x) not in (4, 5):
        raise ValueError(f"fused_batch_norm: wanted rank 4 or 5, got shape {list(e.shape(x))}")
    last = Layout(e.rank(x), data_format).last
    channels = e.shape(x)[-1 if last else 1]
    if any(e.shape(value) != (channels,) for value in (scale, offset, mean, variance)):
        raise ValueError(f"fused_batch_norm: wanted {channels} numbers each as scale, offset, mean and variance")
    order = (0, e.rank(x) - 1, *range(1, e.rank(x) - 1))
    inner = e.transpose(x, order) if last else x
    found = e.add("batch_norm", inner, scale, offset, mean, variance, epsilon=float(epsilon))
    back = (0, *range(2, e.rank(x)), 1)
    return [e.transpose(found, back) if last else found, e.add("identity", mean), e.add("identity", variance)]


def global_batch_norm(
    e: Emitter,
    t: Same,
    m: Same,
    v: Same,
    beta: Same,
    gamma: Same,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Value:
    """Batch normalisation as the first released models have it."""
    return batch_normalization(e, t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon)


def local_response_normalization(
    e: Emitter, input: Same, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5
) -> Value:
    """Return input [N, H, W, C] / (bias + alpha * sum of squares of 2 * depth_radius + 1 channels) ** beta."""
    size = 2 * int(depth_radius) + 1
    how = {"size": size, "alpha": float(alpha) * size, "beta": float(beta), "bias": float(bias)}
    return e.transpose(e.add("lrn", e.transpose(input, (0, 3, 1, 2)), **how), (0, 2, 3, 1))


def layer_normalization(
    e: Emitter,
    x: Same,
    scale: Same | None = None,
    offset: Same | None = None,
    axis: int = -1,
    epsilon: float = 0.001,
) -> Value:
    """Normalize over the axes from `axis` to the last."""
    return e.add("layer_norm", x, scale, offset, axis=e.axis(x, int(axis)), epsilon=float(epsilon))


def l2_normalize(e: Emitter, x: Same, axis: Any = None, epsilon: float = 1e-12) -> Value:
    axes = None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    squares = e.add("reduce_sum", e.add("mul", x, x), axes=axes, keepdims=True)
    return e.add("mul", x, e.add("rsqrt", e.add("max", squares, e.scalar(epsilon, x))))


def softmax_cross_entropy_with_logits(e: Emitter, labels: Same, logits: Same, axis: int = -1) -> Value:
    products = e.add("mul", labels, log_softmax(e, logits, axis))
    return e.add("neg", e.add("reduce_sum", products, axes=(int(axis),), keepdims=False))


def sparse_softmax_cross_entropy_with_logits(e: Emitter, labels: Value, logits: Same) -> Value:
    if e.rank(logits) < 1 or e.shape(labels) != e.shape(logits)[:-1]:
        raise ValueError(f"labels: wanted shape {list(e.shape(logits)[:-1])}, got {list(e.shape(labels))}")
    at = e.rank(logits) - 1
    labels = nonnegative(e, labels)
    picked = e.add("gather_elements", log_softmax(e, logits), e.add("unsqueeze", labels, e.integers([at])), axis=at)
    return e.add("neg", e.add("squeeze", picked, e.integers([at])))


def sigmoid_cross_entropy_with_logits(e: Emitter, labels: Same, logits: Same) -> Value:
    """Return max(x, 0) - x * labels + log(1 + exp(-|x|))."""
    if e.shape(logits) != e.shape(labels):
        raise ValueError(
            f"logits and labels: wanted one shape, got {list(e.shape(logits))} and {list(e.shape(labels))}"
        )
    tail = e.add("softplus", e.add("neg", e.add("abs", logits)))
    return e.add("add", e.add("sub", e.add("relu", logits), e.add("mul", logits, labels)), tail)
