"""Convolutional networks for 224 x 224 images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network


def resnet50(path: Path) -> None:
    """ResNet-50 (He et al. 2015), batch norms folded."""
    net = Network("resnet50")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = net.max_pool(net.conv_relu(x, (3, 64), 7, 2, 3), 3, 2, 1)
    into = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.conv_relu(x, (into, width), 1)
            y = net.conv_relu(y, (width, width), 3, stride, 1)
            y = net.conv(y, (width, 4 * width), 1)
            shortcut = x if block else net.conv(x, (into, 4 * width), 1, stride)
            x = net.op("Relu", net.op("Add", y, shortcut))
            into = 4 * width
    net.save(net.classifier(x, 2048, 1000), [1, 1000], path)


Conv = Callable[[str, tuple[int, int], int, int, int], str]
"""Adds a convolution to (input, (channels in, out), kernel size, stride, groups); returns its output."""


def inverted_residuals(net: Network, x: str, conv: Conv) -> str:
    """MobileNetV2 (Sandler et al. 2018) up to the average over its pixels; `conv` knows where the channels are."""
    low, high = net.constant("low", np.array(0.0, np.float32)), net.constant("high", np.array(6.0, np.float32))

    def relu6(x: str) -> str:
        return net.op("Clip", x, low, high)

    x = relu6(conv(x, (3, 32), 3, 2, 1))
    into = 32
    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, out, blocks, first_stride in plan:
        for block in range(blocks):
            stride = 1 if block else first_stride
            wide = into * expand
            y = relu6(conv(x, (into, wide), 1, 1, 1)) if expand > 1 else x
            y = relu6(conv(y, (wide, wide), 3, stride, wide))
            y = conv(y, (wide, out), 1, 1, 1)
            x = net.op("Add", x, y) if stride == 1 and into == out else y
            into = out
    return relu6(conv(x, (320, 1280), 1, 1, 1))


def mobilenet_v2(path: Path) -> None:
    """MobileNetV2 (Sandler et al. 2018), batch norms folded."""
    net = Network("mobilenet_v2")

    def conv(x: str, channels: tuple[int, int], kernel: int, stride: int, groups: int) -> str:
        return net.conv(x, channels, kernel, stride, kernel // 2, groups)

    x = inverted_residuals(net, net.input("x", TensorProto.FLOAT, [1, 3, 224, 224]), conv)
    net.save(net.classifier(x, 1280, 1000), [1, 1000], path)


def googlenet(path: Path) -> None:
    """GoogLeNet (Szegedy et al. 2014) as torchvision has it: 3x3 in place of 5x5."""
    net = Network("googlenet")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = net.max_pool(net.conv_relu(x, (3, 64), 7, 2, 3), 3, 2, ceil=True)
    x = net.conv_relu(net.conv_relu(x, (64, 64), 1), (64, 192), 3, 1, 1)
    x = net.max_pool(x, 3, 2, ceil=True)
    into = 192
    rows = (
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
        (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
        (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    )  # fmt: skip
    for number, row in enumerate(rows):
        if row is None:
            x = net.max_pool(x, 3 if number == 2 else 2, 2, ceil=True)
            continue
        one, red3, three, red5, five, pool = row
        branches = (
            net.conv_relu(x, (into, one), 1),
            net.conv_relu(net.conv_relu(x, (into, red3), 1), (red3, three), 3, 1, 1),
            net.conv_relu(net.conv_relu(x, (into, red5), 1), (red5, five), 3, 1, 1),
            net.conv_relu(net.max_pool(x, 3, 1, 1, ceil=True), (into, pool), 1),
        )
        x = net.op("Concat", *branches, axis=1)
        into = one + three + five + pool
    net.save(net.classifier(x, 1024, 1000), [1, 1000], path)


def squeezenet1_1(path: Path) -> None:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    net = Network("squeezenet1_1")
    x = net.input("x", TensorProto.FLOAT, [1, 3, 224, 224])
    x = net.max_pool(net.conv_relu(x, (3, 64), 3, 2), 3, 2, ceil=True)
    into = 64
    fires = ((16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256))
    for fire in fires:
        if fire is None:
            x = net.max_pool(x, 3, 2, ceil=True)
            continue
        squeeze, expand = fire
        x = net.conv_relu(x, (into, squeeze), 1)
        wide = net.conv_relu(x, (squeeze, expand), 1), net.conv_relu(x, (squeeze, expand), 3, 1, 1)
        x = net.op("Concat", *wide, axis=1)
        into = 2 * expand
    x = net.op("GlobalAveragePool", net.conv_relu(x, (512, 1000), 1))
    net.save(net.op("Flatten", x, axis=1), [1, 1000], path)
