"""Models whose results have as many rows as the data says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network

CLASSES = 20
ANCHORS = 6
SIZE = 128
"""Height and width of an image; the last feature map is a sixteenth of it."""


def ssd_128(path: Path) -> None:
    """A small SSD detector (Liu et al. 2016) whose graph ends in NonMaxSuppression and picks what it keeps."""
    net = Network("ssd_128")
    x = net.input("x", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    for into, out, stride in ((3, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1), (64, 96, 2)):
        x = net.conv_relu(x, (into, out), 3, stride, 1)
    places = _rows(net, net.conv(x, (96, ANCHORS * 4), 3, 1, 1), 4)
    scores = net.op("Softmax", _rows(net, net.conv(x, (96, ANCHORS * (CLASSES + 1)), 3, 1, 1), CLASSES + 1), axis=2)
    scores = net.op(
        "Slice", net.op("Transpose", scores, perm=[0, 2, 1]), net.ints(1), net.ints(CLASSES + 1), net.ints(1)
    )
    boxes = _boxes(net, places)
    limits = {"overlap": 0.5, "least": 0.5}
    constants = [
        net.ints(100),
        *(net.constant(name, np.array([number], np.float32)) for name, number in limits.items()),
    ]
    kept = net.op("NonMaxSuppression", boxes, scores, *constants, center_point_box=1)
    numbers = net.op("Gather", kept, net.constant("box", np.array(2, np.int64)), axis=1)
    chosen = net.op("Gather", net.op("Squeeze", boxes, net.ints(0)), numbers, axis=0)
    net.save_outputs({chosen: ["kept", 4], net.op("GatherND", scores, kept): ["kept"]}, path)


def _rows(net: Network, x: str, width: int) -> str:
    """Channels of a feature map as [1, anchors, width]."""
    return net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 3, 1]), net.ints(1, -1, width))


def _boxes(net: Network, places: str) -> str:
    """Centres and sizes of boxes, given where they are relative to those of the anchors."""
    cells = SIZE // 16
    rows, columns = np.divmod(np.repeat(np.arange(cells * cells), ANCHORS), cells)
    centers = np.stack([columns + 0.5, rows + 0.5], axis=1)[None] / cells
    sizes = np.tile(np.linspace(0.1, 0.5, ANCHORS), cells * cells)[None, :, None].repeat(2, axis=2)
    center, size = (net.constant(n, a.astype(np.float32)) for n, a in (("centers", centers), ("sizes", sizes)))
    near, scale = (net.op("Slice", places, net.ints(at), net.ints(at + 2), net.ints(2)) for at in (0, 2))
    moved = net.op("Add", net.op("Mul", near, size), center)
    scaled = net.op("Mul", net.op("Exp", net.op("Tanh", scale)), size)
    return net.op("Concat", moved, scaled, axis=2)


def chosen_rows(path: Path) -> None:
    """Layers on those rows of [512, 64] that a mask chooses."""
    net = Network("chosen_rows")
    x = net.input("x", TensorProto.FLOAT, [512, 64])
    y = net.op("MatMul", x, net.weight((64, 64), 64))
    mask = net.op(
        "Greater", net.op("ReduceSum", y, net.ints(1), keepdims=0), net.constant("zero", np.array(0, np.float32))
    )
    kept = net.op("Gather", y, net.op("Squeeze", net.op("NonZero", mask), net.ints(0)), axis=0)
    y = net.op("Relu", net.op("MatMul", kept, net.weight((64, 64), 64)))
    net.save_outputs({y: ["kept", 64]}, path)
