"""Activation functions, as a few scalar ops each; fusion makes one loop of them."""

from __future__ import annotations

import math
from typing import Any

from treadle.dtypes import boolean
from treadle.frontends.faults import Fault
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.rule import Rule, floating, require_inference
from treadle.graph.value import Value

_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    """Returns x / 2 (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) in place of erf."""
    dtype = x.known_dtype
    if approximate == "none":
        bent = b.add("erf", b.add("mul", x, b.scalar(math.sqrt(0.5), dtype)))
    else:
        cube = b.add("mul", b.add("mul", x, x), x)
        inner = b.add("add", x, b.add("mul", cube, b.scalar(0.044715, dtype)))
        bent = b.add("tanh", b.add("mul", inner, b.scalar(math.sqrt(2 / math.pi), dtype)))
    return b.add("mul", b.add("mul", x, b.scalar(0.5, dtype)), b.add("add", bent, b.scalar(1, dtype)))


def clipped(low: float, high: float) -> Rule:
    """Returns the rule of x limited to [low, high]."""
    return lambda b, x: hardtanh(b, x, low, high)


def hardtanh(b: Builder, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return b.add("clip", x, b.scalar(low, x.known_dtype), b.scalar(high, x.known_dtype))


def hardsigmoid(b: Builder, x: Value) -> Value:
    """Returns x / 6 + 1 / 2, limited to [0, 1]. Raises Fault if x is not floating-point."""
    dtype = x.known_dtype
    if not dtype.is_float:
        raise Fault(f"it takes floating point numbers, not {dtype}")
    line = b.add("add", b.add("mul", x, b.scalar(1 / 6, dtype)), b.scalar(0.5, dtype))
    return hardtanh(b, line, 0, 1)


def hardswish(b: Builder, x: Value) -> Value:
    return b.add("mul", x, hardsigmoid(b, x))


def silu(b: Builder, x: Value) -> Value:
    return b.add("mul", x, b.add("sigmoid", x))


def _below(b: Builder, x: Value, alpha: float, scale: float = 1) -> Value:
    """Returns alpha (exp(scale min(x, 0)) - 1), which does not overflow where the positive branch applies."""
    dtype = x.known_dtype
    low = b.add("mul", b.add("min", x, b.scalar(0, dtype)), b.scalar(scale, dtype))
    return b.add("mul", b.add("expm1", low), b.scalar(alpha, dtype))


def elu(b: Builder, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    dtype = x.known_dtype
    bent = b.add("where", b.add("gt", x, b.scalar(0, dtype)), x, _below(b, x, alpha, input_scale))
    return bent if scale == 1 else b.add("mul", bent, b.scalar(scale, dtype))


def selu(b: Builder, x: Value) -> Value:
    return elu(b, x, _SELU_ALPHA, _SELU_GAMMA)


def celu(b: Builder, x: Value, alpha: float = 1.0) -> Value:
    return elu(b, x, alpha, 1, 1 / alpha)


def leaky_relu(b: Builder, x: Value, slope: float = 0.01) -> Value:
    dtype = x.known_dtype
    return b.add("where", b.add("gt", x, b.scalar(0, dtype)), x, b.add("mul", x, b.scalar(slope, dtype)))


def prelu(b: Builder, x: Value, weight: Value) -> Value:
    """Returns x where it is positive, else weight x; `weight` has one number, or one per channel (axis 1)."""
    rank = b.rank(x)
    if b.shape(weight) not in ((1,), ()) and rank > 1:
        weight = b.reshape(weight, [-1, *(1,) * (rank - 2)])
    return b.add("where", b.add("gt", x, b.scalar(0, x.known_dtype)), x, b.add("mul", x, weight))


def softplus(b: Builder, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """Returns log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    dtype = x.known_dtype
    scaled = x if beta == 1 else b.add("mul", x, b.scalar(beta, dtype))
    soft = b.add("softplus", scaled)
    soft = soft if beta == 1 else b.add("div", soft, b.scalar(beta, dtype))
    return b.add("where", b.add("gt", scaled, b.scalar(threshold, dtype)), x, soft)


def mish(b: Builder, x: Value) -> Value:
    return b.add("mul", x, b.add("tanh", b.add("softplus", x)))


def log_sigmoid(b: Builder, x: Value) -> Value:
    return b.add("neg", b.add("softplus", b.add("neg", x)))


def glu(b: Builder, x: Value, dim: int = -1) -> Value:
    """Returns the first half along `dim` times the sigmoid of the second."""
    if not b.rank(x):
        raise Fault("it does not support scalars, which have no halves")
    axis = b.axis(x, dim)
    size = b.shape(x)[axis]
    if size % 2:
        raise Fault(f"Halving dimension must be even, but dimension {axis} is size {size}")
    halves = (b.slice(x, axis, 0, size // 2), b.slice(x, axis, size // 2, size))
    return b.add("mul", halves[0], b.add("sigmoid", halves[1]))


def threshold(b: Builder, x: Value, limit: float, value: float) -> Value:
    """Returns x where it exceeds `limit` or is NaN, else `value`."""
    dtype = x.known_dtype
    return b.add("where", b.add("le", x, b.scalar(limit, dtype)), b.scalar(value, dtype), x)


def dropout(b: Builder, x: Value, p: float = 0.5, train: bool = False) -> Value:  # noqa: ARG001 - part of the signature
    """Returns x. Raises Fault in training mode."""
    require_inference(train and p > 0)
    return x


def native_dropout(b: Builder, x: Value, p: float, train: bool | None) -> list[Value]:
    """Returns x and a mask of True. Raises Fault in training mode."""

    require_inference(bool(train) and p > 0)
    return [x, b.full(1, boolean, b.shape(x))]


def along(op: str) -> Rule:
    """Returns the rule of softmax and log_softmax."""

    def rule(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
        wide = floating(b, x) if dtype is None or isinstance(dtype, bool) else b.cast(x, dtype)
        if not b.rank(wide):
            return b.reshape(b.add(op, b.reshape(wide, [1]), axis=0), [])
        return b.add(op, wide, axis=b.axis(wide, dim))

    return rule
