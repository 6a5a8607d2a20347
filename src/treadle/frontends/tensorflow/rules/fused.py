"""Ops that TensorFlow's own optimiser makes of several: a product or convolution and what follows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules import math, nn
from treadle.frontends.tensorflow.rules.conv import Padding, conv, depthwise_conv2d
from treadle.frontends.tensorflow.rules.kinds import Same, Value

STEPS: dict[str, Callable[..., Value]] = {
    "Elu": nn.elu,
    "GeluApproximate": lambda e, x: nn.gelu(e, x, approximate=True),
    "GeluExact": nn.gelu,
    "LeakyRelu": nn.leaky_relu,
    "Relu": math.unary("relu"),
    "Relu6": nn.relu6,
    "Sigmoid": math.unary("sigmoid"),
    "Tanh": math.unary("tanh"),
}
"""What may follow, by its name in `fused_ops`, beside BiasAdd, Add and FusedBatchNorm, which take tensors."""


def followed(
    e: Emitter, x: Value, args: Sequence[Value], steps: Sequence[str], epsilon: float, alpha: float, form: str | None
) -> Value:
    """`x` after the `steps`, which take their tensors from `args`. Raises ValueError for unknown steps."""
    rest = list(args)
    for step in steps:
        if step == "BiasAdd":
            x = nn.bias_add(e, x, rest.pop(0), form)
        elif step == "Add":
            x = e.add("add", x, rest.pop(0))
        elif step == "FusedBatchNorm":
            scale, offset, mean, variance = (rest.pop(0) for _ in range(4))
            x = nn.fused_batch_norm(e, x, scale, offset, mean, variance, epsilon, form or "NHWC")[0]
        elif step == "LeakyRelu":
            x = nn.leaky_relu(e, x, alpha)
        elif step in STEPS:
            x = STEPS[step](e, x)
        else:
            raise ValueError(f"fused_ops names {step!r}; wanted BiasAdd, Add, FusedBatchNorm, {', '.join(STEPS)}")
    return x


def fused_conv2d(
    e: Emitter,
    input: Same,
    filters: Same,
    args: Sequence[Value],
    strides: Any,
    padding: Padding,
    data_format: str | None = None,
    dilations: Any = None,
    fused_ops: Sequence[str] = (),
    epsilon: float = 1e-4,
    leakyrelu_alpha: float = 0.2,
) -> Value:
    made = conv(e, input, filters, strides, padding, data_format, dilations)
    return followed(e, made, args, fused_ops, epsilon, leakyrelu_alpha, data_format)


def fused_depthwise_conv2d(
    e: Emitter,
    input: Same,
    filter: Same,
    args: Sequence[Value],
    strides: Any,
    padding: Padding,
    data_format: str | None = None,
    dilations: Any = None,
    fused_ops: Sequence[str] = (),
    epsilon: float = 1e-4,
    leakyrelu_alpha: float = 0.2,
) -> Value:
    made = depthwise_conv2d(e, input, filter, strides, padding, data_format, dilations)
    return followed(e, made, args, fused_ops, epsilon, leakyrelu_alpha, data_format)


def fused_matmul(
    e: Emitter,
    a: Same,
    b: Same,
    args: Sequence[Value],
    transpose_a: bool = False,
    transpose_b: bool = False,
    fused_ops: Sequence[str] = (),
    epsilon: float = 1e-4,
    leakyrelu_alpha: float = 0.2,
) -> Value:
    return followed(e, math.matmul(e, a, b, transpose_a, transpose_b), args, fused_ops, epsilon, leakyrelu_alpha, None)
