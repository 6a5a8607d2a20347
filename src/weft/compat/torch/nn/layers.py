"""Modules with parameters: each is a functional and the tensors it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.compat.torch.functions import activation, creation, indexing, layer, matmul
from weft.compat.torch.functions import shape as shapes
from weft.compat.torch.functions.layer import Sizes, each_axis
from weft.compat.torch.nn.module import Module, Parameter
from weft.compat.torch.tensor import Tensor


def _uniform(fan_in: int, *shape: int) -> Parameter:
    bound = 1 / math.sqrt(max(1, fan_in))
    return Parameter((creation.rand(*shape).numpy() * 2 - 1) * creation.tensor(bound).numpy())


class Linear(Module):
    """x @ weight.T + bias."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _uniform(in_features, out_features, in_features)
        self.bias = _uniform(in_features, out_features) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        return matmul.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class _Conv(Module):
    rank = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        kernel = each_axis(kernel_size, self.rank)
        fan_in = in_channels // groups * math.prod(kernel)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = _uniform(fan_in, out_channels, in_channels // groups, *kernel)
        self.bias = _uniform(fan_in, out_channels) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        function = {1: layer.conv1d, 2: layer.conv2d, 3: layer.conv3d}[self.rank]
        return function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Convolution over one axis."""

    rank = 1


class Conv2d(_Conv):
    """Convolution over two axes."""


class Conv3d(_Conv):
    """Convolution over three axes."""

    rank = 3


class Embedding(Module):
    """Rows of a table by number."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        self.weight = Parameter(creation.randn(num_embeddings, embedding_dim))

    def forward(self, input: Tensor) -> Tensor:
        return indexing.embedding(input, self.weight)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then weight and bias."""

    def __init__(self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True) -> None:
        super().__init__()
        self.normalized_shape, self.eps = each_axis(normalized_shape, 1), eps
        self.weight = Parameter(creation.ones(self.normalized_shape)) if elementwise_affine else None
        self.bias = Parameter(creation.zeros(self.normalized_shape)) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        return layer.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class GroupNorm(Module):
    """Mean 0 and variance 1 over groups of channels, then weight and bias."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.weight, self.bias = Parameter(creation.ones(num_channels)), Parameter(creation.zeros(num_channels))

    def forward(self, input: Tensor) -> Tensor:
        return layer.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class BatchNorm2d(Module):
    """Statistics of training applied to each channel; weft runs it in eval mode."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = Parameter(creation.ones(num_features)), Parameter(creation.zeros(num_features))
        self.register_buffer("running_mean", creation.zeros(num_features))
        self.register_buffer("running_var", creation.ones(num_features))
        self.register_buffer("num_batches_tracked", creation.tensor(0))

    running_mean: Tensor
    running_var: Tensor

    def forward(self, input: Tensor) -> Tensor:
        args = (self.running_mean, self.running_var, self.weight, self.bias, self.training)
        return layer.batch_norm(input, *args, eps=self.eps)


class BatchNorm1d(BatchNorm2d):
    """The same over [N, C] or [N, C, L]."""


class Flatten(Module):
    """Axes from `start_dim` on as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return shapes.flatten(input, self.start_dim, self.end_dim)


class Dropout(Module):
    """The identity, in eval mode."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return layer.dropout(input, self.p, training=self.training)


class Identity(Module):
    """The input."""

    def forward(self, input: Tensor) -> Tensor:
        return input


def _of(name: str, function: Callable[..., Tensor], arguments: Sequence[str] = ()) -> type[Module]:
    """A module without parameters: `function` with the arguments of the constructor."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        Module.__init__(self)
        self.options = dict(zip(arguments, args, strict=False)) | {k: v for k, v in kwargs.items() if k != "inplace"}

    def forward(self: Any, input: Tensor) -> Tensor:
        return function(input, **self.options)

    return type(
        name, (Module,), {"__init__": __init__, "forward": forward, "__module__": __name__, "__doc__": function.__doc__}
    )


_POOL = ("kernel_size", "stride", "padding")
ReLU, Sigmoid, Tanh = (
    _of(n, f) for n, f in (("ReLU", activation.relu), ("Sigmoid", activation.sigmoid), ("Tanh", activation.tanh))
)
GELU, SiLU, Mish = _of("GELU", activation.gelu), _of("SiLU", activation.silu), _of("Mish", activation.mish)
ELU, LeakyReLU = _of("ELU", activation.elu, ["alpha"]), _of("LeakyReLU", activation.leaky_relu, ["negative_slope"])
ReLU6, Hardtanh = _of("ReLU6", activation.relu6), _of("Hardtanh", activation.hardtanh, ["min_val", "max_val"])
Hardsigmoid, Hardswish = _of("Hardsigmoid", activation.hardsigmoid), _of("Hardswish", activation.hardswish)
Softplus, Softsign = _of("Softplus", activation.softplus, ["beta", "threshold"]), _of("Softsign", activation.softsign)
LogSigmoid, GLU = _of("LogSigmoid", activation.logsigmoid), _of("GLU", activation.glu, ["dim"])
Softmax, LogSoftmax = _of("Softmax", activation.softmax, ["dim"]), _of("LogSoftmax", activation.log_softmax, ["dim"])
MaxPool1d, MaxPool2d = _of("MaxPool1d", layer.max_pool1d, _POOL), _of("MaxPool2d", layer.max_pool2d, _POOL)
AvgPool1d, AvgPool2d = _of("AvgPool1d", layer.avg_pool1d, _POOL), _of("AvgPool2d", layer.avg_pool2d, _POOL)
AdaptiveAvgPool2d = _of("AdaptiveAvgPool2d", layer.adaptive_avg_pool2d, ["output_size"])
