"""Layers: a function and the parameters that it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from treadle.compat.torch.functions import (
    activation,
    arrangement,
    bags,
    creation,
    inplace,
    matmul,
    norm,
    pool,
    resize,
    selection,
)
from treadle.compat.torch.functions import shape as shapes
from treadle.compat.torch.nn.module import Module, Parameter
from treadle.compat.torch.tensor import Tensor
from treadle.frontends.torch.rules.rule import Sizes, per_axis


def uniform(fan_in: int, *shape: int) -> Parameter:
    """Returns a parameter of uniform random numbers, scaled by fan-in as PyTorch's defaults are."""
    bound = 1 / math.sqrt(max(1, fan_in))
    return Parameter((creation.rand(*shape).numpy() * 2 - 1) * creation.tensor(bound).numpy())


class Linear(Module):
    """x @ weight.T + bias."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = uniform(in_features, out_features, in_features)
        self.bias = uniform(in_features, out_features) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        """Returns [.., out_features] for input [.., in_features]."""
        return matmul.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Returns the sizes, and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class PReLU(Module):
    """x where it is positive, else weight * x."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = Parameter(creation.full((num_parameters,), init))

    def forward(self, input: Tensor) -> Tensor:
        """Returns a tensor of the shape of `input`."""
        return activation.prelu(input, self.weight)


class InstanceNorm2d(Module):
    """Normalization over the spatial axes of each channel of each sample [N, C, H, W]."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False) -> None:
        super().__init__()
        self.eps = eps
        self.weight = Parameter(creation.ones(num_features)) if affine else None
        self.bias = Parameter(creation.zeros(num_features)) if affine else None

    def forward(self, input: Tensor) -> Tensor:
        """Returns a tensor of the shape of `input`."""
        return norm.instance_norm(input, weight=self.weight, bias=self.bias, eps=self.eps)


class InstanceNorm1d(InstanceNorm2d):
    """Normalization as InstanceNorm2d, over [N, C, L]."""


class InstanceNorm3d(InstanceNorm2d):
    """Normalization as InstanceNorm2d, over [N, C, D, H, W]."""


class Unflatten(Module):
    """A split of one axis into several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Returns the input with the axis `dim` split."""
        return shapes.unflatten(input, self.dim, self.unflattened_size)


class Embedding(Module):
    """Rows of a table, by index."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        self.weight = Parameter(creation.randn(num_embeddings, embedding_dim))

    def forward(self, input: Tensor) -> Tensor:
        """Returns the rows at `input` [..]: [.., embedding_dim]."""
        return selection.embedding(input, self.weight)


class EmbeddingBag(Module):
    """Rows of a table, by index, reduced over each bag by sum, mean or maximum."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.weight = Parameter(creation.randn(num_embeddings, embedding_dim) if _weight is None else _weight)
        self.max_norm, self.mode = max_norm, mode
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Returns the bags [bags, embedding_dim] of `input`, [bags, size] or [n] with `offsets`."""
        return bags.embedding_bag(
            input,
            self.weight,
            offsets,
            max_norm=self.max_norm,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )


class LayerNorm(Module):
    """Normalization over the last axes, then weight and bias."""

    def __init__(self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True) -> None:
        super().__init__()
        self.normalized_shape, self.eps = per_axis(normalized_shape, 1), eps
        self.weight = Parameter(creation.ones(self.normalized_shape)) if elementwise_affine else None
        self.bias = Parameter(creation.zeros(self.normalized_shape)) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        """Returns a tensor of the shape of `input`."""
        return norm.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class GroupNorm(Module):
    """Normalization over groups of channels, then weight and bias."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.weight, self.bias = Parameter(creation.ones(num_channels)), Parameter(creation.zeros(num_channels))

    def forward(self, input: Tensor) -> Tensor:
        """Returns a tensor of the shape of `input`, [N, C, *]."""
        return norm.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class BatchNorm2d(Module):
    """Normalization with the statistics of training; runs in eval mode only."""

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
        """Returns a tensor of the shape of `input`, [N, C, *]."""
        args = (self.running_mean, self.running_var, self.weight, self.bias, self.training)
        return norm.batch_norm(input, *args, eps=self.eps)


class BatchNorm1d(BatchNorm2d):
    """Normalization as BatchNorm2d, over [N, C] or [N, C, L]."""


class BatchNorm3d(BatchNorm2d):
    """Normalization as BatchNorm2d, over [N, C, D, H, W]."""


class Flatten(Module):
    """A merge of the axes from `start_dim` to `end_dim`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Returns the input with its axes merged."""
        return shapes.flatten(input, self.start_dim, self.end_dim)


class Dropout(Module):
    """The identity. Raises NotImplementedError in training mode."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """Returns the input."""
        return activation.dropout(input, self.p, training=self.training)


class Dropout1d(Dropout):
    """The identity. Raises NotImplementedError in training mode."""


class Dropout2d(Dropout):
    """The identity. Raises NotImplementedError in training mode."""


class Identity(Module):
    """The input."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Returns the input."""
        return input


def _of(name: str, function: Callable[..., Tensor], arguments: Sequence[str] = ()) -> type[Module]:
    """Returns a module class without parameters, which calls `function` with the constructor's arguments."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        Module.__init__(self)
        given = dict(zip((*arguments, "inplace"), args, strict=False)) | kwargs
        self.inplace = bool(given.pop("inplace", False))
        self.options = given

    def forward(self: Any, input: Tensor) -> Tensor:
        result = function(input, **self.options)
        return inplace.write_into(input, result) if self.inplace else result

    return type(
        name,
        (Module,),
        {
            "__init__": __init__,
            "forward": forward,
            "__module__": __name__,
            "__doc__": f"`torch.nn.functional.{function.__name__}` as a module.",
        },
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
MaxPool1d, MaxPool2d = _of("MaxPool1d", pool.max_pool1d, _POOL), _of("MaxPool2d", pool.max_pool2d, _POOL)
AvgPool1d, AvgPool2d = _of("AvgPool1d", pool.avg_pool1d, _POOL), _of("AvgPool2d", pool.avg_pool2d, _POOL)
MaxPool3d, AvgPool3d = _of("MaxPool3d", pool.max_pool3d, _POOL), _of("AvgPool3d", pool.avg_pool3d, _POOL)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (
    _of(f"AdaptiveAvgPool{rank}d", function, ["output_size"])
    for rank, function in enumerate((pool.adaptive_avg_pool1d, pool.adaptive_avg_pool2d, pool.adaptive_avg_pool3d), 1)
)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (
    _of(f"AdaptiveMaxPool{rank}d", function, ["output_size"])
    for rank, function in enumerate((pool.adaptive_max_pool1d, pool.adaptive_max_pool2d, pool.adaptive_max_pool3d), 1)
)
Upsample = _of("Upsample", resize.interpolate, ["size", "scale_factor", "mode", "align_corners"])
PixelShuffle = _of("PixelShuffle", resize.pixel_shuffle, ["upscale_factor"])
PixelUnshuffle = _of("PixelUnshuffle", resize.pixel_unshuffle, ["downscale_factor"])
SELU, CELU = _of("SELU", activation.selu), _of("CELU", activation.celu, ["alpha"])
Threshold = _of("Threshold", activation.threshold, ["threshold", "value"])
Softmin, Tanhshrink = _of("Softmin", activation.softmin, ["dim"]), _of("Tanhshrink", activation.tanhshrink)
Hardshrink, Softshrink = (
    _of("Hardshrink", activation.hardshrink, ["lambd"]), _of("Softshrink", activation.softshrink, ["lambd"])
)  # fmt: skip
ZeroPad1d, ZeroPad2d = (
    _of(f"ZeroPad{rank}d", lambda x, padding, n=rank: arrangement.pad(x, per_axis(padding, 2 * n)), ["padding"])
    for rank in (1, 2)
)
ReflectionPad1d, ReflectionPad2d = (
    _of(
        f"ReflectionPad{rank}d",
        lambda x, padding, n=rank: arrangement.pad(x, per_axis(padding, 2 * n), "reflect"),
        ["padding"],
    )
    for rank in (1, 2)
)
