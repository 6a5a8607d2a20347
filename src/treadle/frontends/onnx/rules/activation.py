"""Activation functions as a few scalar ops each; fusion makes one loop of them."""

import math

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def gelu(node: OnnxNode, b: Builder) -> Value:
    """Gelu(x), or its approximation by tanh."""
    return gelu_of(node.input(0), b, approximate=node.choice("approximate", "none", "none", "tanh") == "tanh")


def gelu_of(x: Value, b: Builder, *, approximate: bool) -> Value:
    """0.5 x (1 + erf(x / sqrt 2)), or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    if not approximate:
        bent = b.add("erf", b.add("mul", x, b.scalar(math.sqrt(0.5), x.dtype)))
    else:
        cube = b.add("mul", b.add("mul", x, x), x)
        inner = b.add("add", x, b.add("mul", cube, b.scalar(0.044715, x.dtype)))
        bent = b.add("tanh", b.add("mul", inner, b.scalar(math.sqrt(2 / math.pi), x.dtype)))
    half = b.add("mul", x, b.scalar(0.5, x.dtype))
    return b.add("mul", half, b.add("add", bent, b.scalar(1, x.dtype)))


def hard_sigmoid(node: OnnxNode, b: Builder) -> Value:
    """HardSigmoid(x) -> clip(alpha x + beta, 0, 1)."""
    return hard_sigmoid_of(node.input(0), node.number("alpha", 0.2), node.number("beta", 0.5), b)


def hard_sigmoid_of(x: Value, alpha: float, beta: float, b: Builder) -> Value:
    """clip(alpha x + beta, 0, 1)."""
    line = b.add("add", b.add("mul", x, b.scalar(alpha, x.dtype)), b.scalar(beta, x.dtype))
    return b.add("clip", line, b.scalar(0, x.dtype), b.scalar(1, x.dtype))


def hard_swish(node: OnnxNode, b: Builder) -> Value:
    """HardSwish(x) -> x clip(x / 6 + 1/2, 0, 1)."""
    x = node.input(0)
    return b.add("mul", x, hard_sigmoid_of(x, 1 / 6, 0.5, b))


def _negative_exp(x: Value, scale: float, b: Builder) -> Value:
    """exp(min(x, 0) / scale) - 1: no overflow where the positive branch is taken."""
    low = b.add("min", x, b.scalar(0, x.dtype))
    low = low if scale == 1 else b.add("div", low, b.scalar(scale, x.dtype))
    return b.add("expm1", low)


def elu(node: OnnxNode, b: Builder) -> Value:
    """Elu(x) -> x where x > 0, else alpha (exp x - 1)."""
    x = node.input(0)
    below = b.add("mul", _negative_exp(x, 1, b), b.scalar(node.number("alpha", 1.0), x.dtype))
    return b.add("where", b.add("gt", x, b.scalar(0, x.dtype)), x, below)


def selu(node: OnnxNode, b: Builder) -> Value:
    """Selu(x) -> gamma x where x > 0, else gamma alpha (exp x - 1)."""
    x = node.input(0)
    alpha, gamma = node.number("alpha", _SELU_ALPHA), node.number("gamma", _SELU_GAMMA)
    below = b.add("mul", _negative_exp(x, 1, b), b.scalar(alpha, x.dtype))
    bent = b.add("where", b.add("gt", x, b.scalar(0, x.dtype)), x, below)
    return b.add("mul", bent, b.scalar(gamma, x.dtype))


def celu(node: OnnxNode, b: Builder) -> Value | None:
    """Celu(x) -> max(x, 0) + min(0, alpha (exp(x / alpha) - 1))."""
    x, alpha = node.input(0), node.number("alpha", 1.0)
    if not alpha > 0:
        return None
    zero = b.scalar(0, x.dtype)
    below = b.add("mul", _negative_exp(x, alpha, b), b.scalar(alpha, x.dtype))
    return b.add("add", b.add("max", x, zero), below)


def leaky_relu(node: OnnxNode, b: Builder) -> Value:
    """LeakyRelu(x) -> x where x >= 0, else alpha x."""
    return leaky_relu_of(node.input(0), node.number("alpha", 0.01), b)


def leaky_relu_of(x: Value, alpha: float, b: Builder) -> Value:
    """x where x >= 0, else alpha x."""
    below = b.add("mul", x, b.scalar(alpha, x.dtype))
    return b.add("where", b.add("lt", x, b.scalar(0, x.dtype)), below, x)


def prelu(node: OnnxNode, b: Builder) -> Value:
    """PRelu(x, slope) -> x where x >= 0, else slope x."""
    x = node.input(0)
    below = b.add("mul", x, node.input(1))
    return b.add("where", b.add("lt", x, b.scalar(0, x.dtype)), below, x)


def thresholded_relu(node: OnnxNode, b: Builder) -> Value:
    """ThresholdedRelu(x) -> x where x > alpha, else 0."""
    x = node.input(0)
    above = b.add("gt", x, b.scalar(node.number("alpha", 1.0), x.dtype))
    return b.add("where", above, x, b.scalar(0, x.dtype))


def shrink(node: OnnxNode, b: Builder) -> Value:
    """Shrink(x) -> x + bias where x < -lambd, x - bias where x > lambd, else 0."""
    x = node.input(0)
    lambd, bias = node.number("lambd", 0.5), node.number("bias", 0.0)
    above = b.add("gt", x, b.scalar(lambd, x.dtype))
    below = b.add("lt", x, b.scalar(-lambd, x.dtype))
    shift = b.scalar(bias, x.dtype)
    right = b.add("where", above, b.add("sub", x, shift), b.scalar(0, x.dtype))
    return b.add("where", below, b.add("add", x, shift), right)


def softsign(node: OnnxNode, b: Builder) -> Value:
    """Softsign(x) -> x / (1 + |x|)."""
    x = node.input(0)
    return b.add("div", x, b.add("add", b.add("abs", x), b.scalar(1, x.dtype)))


def mish(node: OnnxNode, b: Builder) -> Value:
    """Mish(x) -> x tanh(softplus x)."""
    x = node.input(0)
    return b.add("mul", x, b.add("tanh", b.add("softplus", x)))


def swish(node: OnnxNode, b: Builder) -> Value:
    """Swish(x) -> x sigmoid(alpha x)."""
    return swish_of(node.input(0), node.number("alpha", 1.0), b)


def swish_of(x: Value, alpha: float, b: Builder) -> Value:
    """x sigmoid(alpha x)."""
    scaled = x if alpha == 1 else b.add("mul", x, b.scalar(alpha, x.dtype))
    return b.add("mul", x, b.add("sigmoid", scaled))
