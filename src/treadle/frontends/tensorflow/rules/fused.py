"""Ops that TensorFlow's optimizer fuses: a product or convolution with its epilogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules import math, nn
from treadle.frontends.tensorflow.rules.conv import Padding
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
"""The steps in `fused_ops` without tensors; BiasAdd, Add and FusedBatchNorm take tensors."""


def with_epilogue(
    e: Emitter,
    x: Value,
    args: Sequence[Value],
    steps: Sequence[str],
    epsilon: float,
    alpha: float,
    data_format: str | None,
) -> Value:
    """Apply the `steps` of an epilogue to `x`, with tensors from `args`. Raises ValueError for unknown steps."""
    operands = list(args)
    for step in steps:
        if step == "BiasAdd":
            x = nn.bias_add(e, x, operands.pop(0), data_format)
        elif step == "Add":
            x = e.add("add", x, operands.pop(0))
        elif step == "FusedBatchNorm":
            scale, offset, mean, variance = (operands.pop(0) for _ in range(4))
            x = nn.fused_batch_norm(e, x, scale, offset, mean, variance, epsilon, data_format or "NHWC")[0]
        elif step == "LeakyRelu":
            x = nn.leaky_relu(e, x, alpha)
        elif step in STEPS:
            x = STEPS[step](e, x)
        else:
            raise ValueError(f"fused_ops names {step!r}; wanted BiasAdd, Add, FusedBatchNorm, {', '.join(STEPS)}")
    return x


def fused_convolution(convolution: Callable[..., Value]) -> Callable[..., Value]:
    """Return the rule of a convolution with an epilogue."""

    def rule(
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
        result = convolution(e, input, filters, strides, padding, data_format, dilations)
        return with_epilogue(e, result, args, fused_ops, epsilon, leakyrelu_alpha, data_format)

    return rule


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
    return with_epilogue(
        e, math.matmul(e, a, b, transpose_a, transpose_b), args, fused_ops, epsilon, leakyrelu_alpha, None
    )
