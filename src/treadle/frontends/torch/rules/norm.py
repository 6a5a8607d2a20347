"""Normalization, for inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.rule import require_inference
from treadle.graph.value import Value


def _ones_and_zeros(b: Builder, x: Value, weight: Value | None, bias: Value | None) -> tuple[Value, Value]:
    channels, dtype = b.shape(x)[1], x.known_dtype.numpy
    scale = b.constant(np.ones(channels, dtype)) if weight is None else weight
    return scale, b.constant(np.zeros(channels, dtype)) if bias is None else bias


def batch_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    training: bool,
    momentum: float,  # noqa: ARG001 - the op has it
    eps: float,
    cudnn_enabled: bool = False,  # noqa: ARG001 - part of the signature
) -> Value:
    require_inference(training)
    if mean is None or var is None:
        raise Fault("it keeps no running statistics; treadle runs inference with those that are stored")
    return b.add("batch_norm", x, *_ones_and_zeros(b, x, weight, bias), mean, var, epsilon=eps)


def no_training(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    momentum: float,
    eps: float,
) -> list[Value | None]:
    """Returns batch norm as it decomposes: the result, and what only a gradient reads."""
    return native_batch_norm(b, x, weight, bias, mean, var, False, momentum, eps)


def native_batch_norm(b: Builder, *args: Any) -> list[Value | None]:
    """Returns batch norm, and what only a gradient reads."""
    return [batch_norm(b, *args), None, None]


def layer_norm(
    b: Builder,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # noqa: ARG001 - the op has it
) -> Value:
    return b.add("layer_norm", x, weight, bias, axis=b.rank(x) - len(shape), epsilon=eps)


def native_layer_norm(
    b: Builder, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> list[Value | None]:
    return [layer_norm(b, x, shape, weight, bias, eps), None, None]


def rms_norm(
    b: Builder, x: Value, shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> Value:
    small = float(np.finfo(x.known_dtype.numpy).eps) if eps is None else eps
    return b.add("rms_norm", x, weight, axis=b.rank(x) - len(shape), epsilon=small)


def fused_rms_norm(
    b: Builder, x: Value, shape: Sequence[int], weight: Value | None, eps: float | None
) -> list[Value | None]:
    return [rms_norm(b, x, shape, weight, eps), None]


def group_norm(
    b: Builder,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # noqa: ARG001 - the op has it
) -> Value:
    return b.add("group_norm", x, *_ones_and_zeros(b, x, weight, bias), groups=groups, epsilon=eps)


def native_group_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: int,  # noqa: ARG001 - the op has it
    c: int,  # noqa: ARG001 - part of the signature
    hxw: int,  # noqa: ARG001 - part of the signature
    groups: int,
    eps: float,
) -> list[Value | None]:
    return [group_norm(b, x, groups, weight, bias, eps), None, None]


def instance_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps, cudnn_enabled)
    if mean is not None or var is not None:
        raise Unsupported("instance_norm that updates running statistics, as in training; call .eval() on the module")
    return b.add("instance_norm", x, *_ones_and_zeros(b, x, weight, bias), epsilon=eps)
