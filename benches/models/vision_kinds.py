"""Convolutional networks with squeeze-excite, dense blocks, channel shuffles, groups, wide and tall filters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network


def _silu(net: Network, x: str) -> str:
    return net.op("Mul", x, net.op("Sigmoid", x))


def efficientnet_b0(path: Path) -> None:
    """EfficientNet-B0 (Tan and Le 2019), batch norms folded: inverted residuals with squeeze-excite and SiLU."""
    net = Network("efficientnet_b0")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = _silu(net, net.conv(x, (3, 32), 3, 2, 1))
    into = 32
    stages = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    for grow, out, repeats, first_stride, kernel in stages:
        for i in range(repeats):
            stride = 1 if i else first_stride
            wide = into * grow
            y = _silu(net, net.conv(x, (into, wide), 1)) if grow > 1 else x
            y = _silu(net, net.conv(y, (wide, wide), kernel, stride, kernel // 2, wide))
            gate = net.op("GlobalAveragePool", y)
            gate = _silu(net, net.conv(gate, (wide, max(1, into // 4)), 1))
            gate = net.op("Sigmoid", net.conv(gate, (max(1, into // 4), wide), 1))
            y = net.conv(net.op("Mul", y, gate), (wide, out), 1)
            x = net.op("Add", y, x) if stride == 1 and into == out else y
            into = out
    x = _silu(net, net.conv(x, (into, 1280), 1))
    net.save(net.classifier(x, 1280, 1000), [1, 1000], path)


def densenet121(path: Path) -> None:
    """DenseNet-121 (Huang et al. 2016): norm, ReLU and 1 x 1, 3 x 3 convolutions, every layer concatenated."""
    net = Network("densenet121")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = net.max_pool(net.conv_relu(x, (3, 64), 7, 2, 3), 3, 2, 1)
    width = 64
    for stage, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            y = net.conv_relu(net.norm_relu(x, width), (width, 128), 1)
            x = net.op("Concat", x, net.conv(y, (128, 32), 3, 1, 1), axis=1)
            width += 32
        if stage < 3:
            x = net.conv(net.norm_relu(x, width), (width, width // 2), 1)
            x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
            width //= 2
    net.save(net.classifier(net.norm_relu(x, width), width, 1000), [1, 1000], path)


def shufflenet_v2(path: Path) -> None:
    """ShuffleNet v2 1.0x (Ma et al. 2018): halves of the channels, depthwise convolutions, channel shuffles."""
    net = Network("shufflenet_v2")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = net.max_pool(net.conv_relu(x, (3, 24), 3, 2, 1), 3, 2, 1)
    into, side = 24, 56
    for out, repeats in ((116, 4), (232, 8), (464, 4)):
        half = out // 2
        for i in range(repeats):
            if i:
                left = net.op("Slice", x, net.ints(0), net.ints(half), net.ints(1))
                right = net.op("Slice", x, net.ints(half), net.ints(out), net.ints(1))
                right = net.conv_relu(right, (half, half), 1)
                right = net.conv(right, (half, half), 3, 1, 1, half)
            else:
                side //= 2
                left = net.conv_relu(net.conv(x, (into, into), 3, 2, 1, into), (into, half), 1)
                right = net.conv_relu(x, (into, half), 1)
                right = net.conv(right, (half, half), 3, 2, 1, half)
            right = net.conv_relu(right, (half, half), 1)
            x = net.op("Concat", left, right, axis=1)
            x = net.op("Reshape", x, net.ints(1, 2, half, side, side))
            x = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1, 3, 4]), net.ints(1, out, side, side))
        into = out
    net.save(net.classifier(net.conv_relu(x, (into, 1024), 1), 1024, 1000), [1, 1000], path)


def resnext50(path: Path) -> None:
    """ResNeXt-50 32x4d (Xie et al. 2016): ResNet-50 with 3 x 3 convolutions of 32 groups."""
    net = Network("resnext50")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = net.max_pool(net.conv_relu(x, (3, 64), 7, 2, 3), 3, 2, 1)
    into = 64
    for stage, (width, blocks) in enumerate(((128, 3), (256, 4), (512, 6), (1024, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.conv_relu(x, (into, width), 1)
            y = net.op("Relu", net.conv(y, (width, width), 3, stride, 1, 32))
            y = net.conv(y, (width, 2 * width), 1)
            shortcut = x if block else net.conv(x, (into, 2 * width), 1, stride)
            x = net.op("Relu", net.op("Add", y, shortcut))
            into = 2 * width
    net.save(net.classifier(x, into, 1000), [1, 1000], path)


def unet_128(path: Path) -> None:
    """A U-Net (Ronneberger et al. 2015) for one 128 x 128 image: 3 x 3 convolutions, nearest upsampling, skips."""
    net = Network("unet_128")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 128, 128])
    into, skips = 3, []
    for width in (32, 64, 128, 256):
        x = net.conv_relu(net.conv_relu(x, (into, width), 3, 1, 1), (width, width), 3, 1, 1)
        skips.append((x, width))
        x, into = net.max_pool(x, 2, 2), width
    x = net.conv_relu(x, (into, 512), 3, 1, 1)
    into = 512
    twice = net.constant("twice", np.array([1, 1, 2, 2], np.float32))
    for skip, width in reversed(skips):
        x = net.op(
            "Resize", x, "", twice, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )
        x = net.op("Concat", x, skip, axis=1)
        x = net.conv_relu(net.conv_relu(x, (into + width, width), 3, 1, 1), (width, width), 3, 1, 1)
        into = width
    net.save(net.op("Sigmoid", net.conv(x, (into, 1), 1)), [1, 1, 128, 128], path)
