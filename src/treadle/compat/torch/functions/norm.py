"""Normalization, with statistics of the input or of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import clamp, div
from treadle.compat.torch.functions.reduction import norm
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor


@tensor_function
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes over the last axes, which must have the shape `normalized_shape`, then applies weight and bias."""
    return emit("layer_norm", input, weight, bias, axis=_first_of(input, normalized_shape), epsilon=eps)


def _first_of(x: Tensor, normalized_shape: Sequence[int]) -> int:
    """Returns the first of the last axes of `x`. Raises RuntimeError if their shape is not `normalized_shape`."""
    shape = tuple(normalized_shape)
    if tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size{list(x.shape)}"
        )
    return x.ndim - len(shape)


@tensor_function
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root of the mean square over the last axes, then multiplies by weight."""
    small = float(np.finfo(input.dtype.numpy).eps) if eps is None else eps
    return emit("rms_norm", input, weight, axis=_first_of(input, normalized_shape), epsilon=small)


def _ones_and_zeros(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Any, Any]:
    channels = x.shape[1]
    ones, zeros = np.ones(channels, x.dtype.numpy), np.zeros(channels, x.dtype.numpy)
    return ones if weight is None else weight, zeros if bias is None else bias


@tensor_function
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Returns (input - mean) / sqrt(var + eps) * weight + bias for each channel.

    Raises NotImplementedError if it is to compute statistics of the batch.
    """
    if training or running_mean is None or running_var is None:
        raise NotImplementedError("batch_norm with statistics of the batch: treadle runs inference; call module.eval()")
    return emit("batch_norm", input, *_ones_and_zeros(input, weight, bias), running_mean, running_var, epsilon=eps)


@tensor_function
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes each group of channels, then applies weight and bias."""
    return emit("group_norm", input, *_ones_and_zeros(input, weight, bias), groups=num_groups, epsilon=eps)


instance_norm = of_op(
    "instance_norm",
    lambda input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
    eps=1e-5: (input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False),
)  # fmt: skip


@tensor_function
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divides by the norm along `dim`, or by `eps` if that is larger."""
    return div(input, clamp(norm(input, p, dim, keepdim=True), eps))
