"""torch.nn.init: initializers, which write into parameters."""

from __future__ import annotations

import math

import numpy as np

from treadle.compat.torch.functions.inplace import normal_ as _normal
from treadle.compat.torch.functions.inplace import uniform_ as _uniform
from treadle.compat.torch.functions.writing import copy_, fill_
from treadle.compat.torch.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "trunc_normal_",
    "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fills the tensor with random numbers in [a, b)."""
    return _uniform(tensor, a, b)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fills the tensor with normally distributed random numbers."""
    return _normal(tensor, mean, std)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Fills the tensor with normally distributed random numbers within [a, b]."""
    array = normal_(tensor, mean, std).numpy()
    while (outside := (array < a) | (array > b)).any():
        fresh = Tensor(np.zeros(int(outside.sum()), array.dtype))
        array[outside] = normal_(fresh, mean, std).numpy()
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills the tensor with one number."""
    return fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills the tensor with 1."""
    return fill_(tensor, 1)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills the tensor with 0."""
    return fill_(tensor, 0)


def eye_(tensor: Tensor) -> Tensor:
    """Writes the identity matrix into a matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return copy_(tensor, np.eye(*tensor.shape, dtype=tensor.dtype.numpy))


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Returns the factor that preserves the variance through a nonlinearity."""
    slope = 0.01 if param is None else param
    gains = {"tanh": 5 / 3, "relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + slope**2)), "selu": 3 / 4}
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills with uniform random numbers scaled by fan-in and fan-out (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills with normal random numbers scaled by fan-in and fan-out (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fills with uniform random numbers scaled for rectifiers (He et al., 2015)."""
    bound = math.sqrt(3) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fills with normal random numbers scaled for rectifiers (He et al., 2015)."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity))
