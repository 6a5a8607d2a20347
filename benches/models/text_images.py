"""Models that find and read text in images of free height and width, as libraries for OCR export them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network

ALIGNED = 32
"""Heights and widths of the mobile detector's images are multiples of it: its pyramid doubles what strides halved."""

MOBILENET_V3 = (
    (3, 8, 8, False, "Relu", 1),
    (3, 32, 16, False, "Relu", 2),
    (3, 40, 16, False, "Relu", 1),
    (5, 40, 24, True, "Relu", 2),
    (5, 64, 24, True, "Relu", 1),
    (5, 64, 24, True, "Relu", 1),
    (3, 120, 40, False, "HardSwish", 2),
    (3, 104, 40, False, "HardSwish", 1),
    (3, 96, 40, False, "HardSwish", 1),
    (3, 96, 40, False, "HardSwish", 1),
    (3, 240, 56, True, "HardSwish", 1),
    (3, 336, 56, True, "HardSwish", 1),
    (5, 336, 80, True, "HardSwish", 2),
    (5, 480, 80, True, "HardSwish", 1),
    (5, 480, 80, True, "HardSwish", 1),
)
"""MobileNetV3-Large at half width: kernel, width inside and behind a block, squeeze-excite, activation, stride."""

Block = tuple[int, int, int, bool, str, int]


def mobile_detector(name: str, path: Path, *, blocks: Sequence[Block], neck: int) -> None:
    """DBNet (Liao et al. 2020) on MobileNetV3 (Howard et al. 2019); the result says of each pixel if it is text."""
    net = Network(name)
    x = net.input("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    into = blocks[0][1]
    x = net.op("HardSwish", net.conv(x, (3, into), 3, 2, 1))
    levels = []
    for kernel, wide, out, squeeze, activation, stride in blocks:
        if stride == 2:
            levels.append((x, into))
        x, into = _inverted_residual(net, x, into, (kernel, wide, out, squeeze, activation, stride)), out
    levels.append((x, into))
    narrow = [net.conv(level, (width, neck), 1) for level, width in levels]
    for i in reversed(range(len(narrow) - 1)):
        narrow[i] = net.op("Add", narrow[i], _grown(net, narrow[i + 1], 2))
    quarter = neck // len(narrow)
    pyramid = [net.conv(level, (neck, quarter), 3, 1, 1) for level in narrow]
    joined = [pyramid[0], *(_grown(net, level, 2**i) for i, level in enumerate(pyramid[1:], start=1))]
    x = net.op("Concat", *reversed(joined), axis=1)
    x = net.conv_relu(x, (quarter * len(joined), quarter), 3, 1, 1)
    x = net.op("Relu", net.conv_transpose(x, (quarter, quarter), 2))
    net.name_output(net.op("Sigmoid", net.conv_transpose(x, (quarter, 1), 2)), "text")
    net.save_outputs({"text": ["batch", 1, "height", "width"]}, path)


def _inverted_residual(net: Network, x: str, into: int, block: Block) -> str:
    kernel, wide, out, squeeze, activation, stride = block
    y = net.op(activation, net.conv(x, (into, wide), 1))
    y = net.op(activation, net.conv(y, (wide, wide), kernel, stride, kernel // 2, wide))
    if squeeze:
        gate = net.conv_relu(net.op("GlobalAveragePool", y), (wide, wide // 4), 1)
        gate = net.op("HardSigmoid", net.conv(gate, (wide // 4, wide), 1), alpha=0.2, beta=0.5)
        y = net.op("Mul", y, gate)
    y = net.conv(y, (wide, out), 1)
    return net.op("Add", x, y) if stride == 1 and into == out else y


def _grown(net: Network, x: str, times: int) -> str:
    scales = net.constant(f"scales_{len(net.weights)}", np.array([1, 1, times, times], np.float32))
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return net.op("Resize", x, "", scales, **modes)


def recogniser(name: str, path: Path, *, channels: tuple[int, int, int, int], hidden: int, classes: int) -> None:
    """CRNN (Shi et al. 2015): columns of features, two LSTM layers along them, and the classes of each column.

    The features of a column are the mean over what pools leave of its height.
    """
    net = Network(name)
    x = net.input("line", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    first, second, third, last = channels
    x = net.max_pool(net.conv_relu(x, (3, first), 3, 1, 1), 2, 2)
    x = net.max_pool(net.conv_relu(x, (first, second), 3, 1, 1), 2, 2)
    x = net.conv_relu(net.conv_relu(x, (second, third), 3, 1, 1), (third, third), 3, 1, 1)
    x = _flattened(net, x)
    x = net.conv_relu(net.conv_relu(x, (third, last), 3, 1, 1), (last, last), 3, 1, 1)
    x = net.conv_relu(_flattened(net, x), (last, last), 2)
    x = net.op("Transpose", net.op("ReduceMean", x, axes=[2], keepdims=0), perm=[2, 0, 1])
    into = last
    for _ in range(2):
        x = net.op("Transpose", net.recurrent("LSTM", x, into, hidden, gates=4), perm=[0, 2, 1, 3])
        x = net.op("Reshape", x, net.ints(0, 0, -1))
        into = 2 * hidden
    x = net.op("Softmax", net.linear(net.op("Transpose", x, perm=[1, 0, 2]), into, classes), axis=-1)
    net.name_output(x, "classes")
    net.save_outputs({"classes": ["batch", "columns", classes]}, path)


def _flattened(net: Network, x: str) -> str:
    """Pools pairs of rows; the width stays, but for one more column."""
    return net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 1], pads=[0, 1, 0, 1])


def mobile_detector_open(path: Path) -> None:
    """As small as what runs on phones."""
    mobile_detector("mobile_detector_open", path, blocks=MOBILENET_V3, neck=96)


def recogniser_open(path: Path) -> None:
    """The sizes of the paper, and the characters of Chinese."""
    recogniser("recogniser_open", path, channels=(64, 128, 256, 512), hidden=256, classes=6625)
