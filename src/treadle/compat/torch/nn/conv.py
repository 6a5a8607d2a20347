"""Convolutions and their transposes as modules."""

from __future__ import annotations

import math

from treadle.compat.torch.functions import conv
from treadle.compat.torch.nn.layers import uniform
from treadle.compat.torch.nn.module import Module
from treadle.compat.torch.tensor import Tensor
from treadle.frontends.torch.rules.rule import Sizes, per_axis


class _Filter(Module):
    """Base of convolutions and their transposes: holds a weight of shape [first, each, *kernel]."""

    rank = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes | str,
        dilation: Sizes,
        groups: int,
        bias: bool,
        *,
        first: int,
        each: int,
    ) -> None:
        super().__init__()
        kernel = per_axis(kernel_size, self.rank)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        fan_in = each * math.prod(kernel)
        self.weight = uniform(fan_in, first, each, *kernel)
        self.bias = uniform(fan_in, out_channels) if bias else None

    def extra_repr(self) -> str:
        """Returns channels, kernel and stride, and other settings that are not the default."""
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"]
        parts.append(f"stride={per_axis(self.stride, self.rank)}")
        for name, default in (("padding", 0), ("output_padding", 0), ("dilation", 1)):
            given: Sizes | str = getattr(self, name, default)
            sizes = given if isinstance(given, str) else per_axis(given, self.rank)
            if sizes != (default,) * self.rank:
                parts.append(f"{name}={sizes}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)


class _Conv(_Filter):
    """Base of convolutions."""

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
        if padding == "same" and any(step != 1 for step in per_axis(stride, self.rank)):
            raise ValueError("padding='same' is not supported for strided convolutions")
        given = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        super().__init__(*given, first=out_channels, each=in_channels // groups)

    def forward(self, input: Tensor) -> Tensor:
        function = {1: conv.conv1d, 2: conv.conv2d, 3: conv.conv3d}[self.rank]
        return function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Convolution over one axis.

    Raises ValueError for padding="same" with a stride.
    """

    rank = 1


class Conv2d(_Conv):
    """Convolution over two axes.

    Raises ValueError for padding="same" with a stride.
    """


class Conv3d(_Conv):
    """Convolution over three axes.

    Raises ValueError for padding="same" with a stride.
    """

    rank = 3


class _ConvTranspose(_Filter):
    """Base of transposed convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
    ) -> None:
        given = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        super().__init__(*given, first=in_channels, each=out_channels // groups)
        self.output_padding = output_padding

    def forward(self, input: Tensor) -> Tensor:
        function = {1: conv.conv_transpose1d, 2: conv.conv_transpose2d, 3: conv.conv_transpose3d}[self.rank]
        args = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return function(input, self.weight, self.bias, *args)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one axis."""

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two axes."""


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over three axes."""

    rank = 3
