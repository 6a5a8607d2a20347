"""Convolutional networks with channels last, as exporters of TensorFlow models write them."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto

from benches.models.network import Network
from benches.models.vision import inverted_residuals


def mobilenet_v2_nhwc(path: Path) -> None:
    """MobileNetV2 as Keras defines it: every convolution between two transposes.

    The graph is a TensorFlow graph for inference (batch norms folded), op by op: biases, activations, residuals and
    zero padding before convolutions with stride 2 work on [N, H, W, C]; only convolutions have channels second.
    """
    net = Network("mobilenet_v2_nhwc")
    pads = net.ints(0, 0, 0, 0, 0, 1, 1, 0)

    def conv(x: str, channels: tuple[int, int], kernel: int, stride: int, groups: int) -> str:
        into, out = channels[0] // groups, channels[1]
        same = kernel // 2
        if stride == 2:
            x, same = net.op("Pad", x, pads), 0
        x = net.op("Transpose", x, perm=[0, 3, 1, 2])
        w = net.weight((out, into, kernel, kernel), into * kernel * kernel)
        x = net.op("Conv", x, w, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[same] * 4, group=groups)
        x = net.op("Transpose", x, perm=[0, 2, 3, 1])
        return net.op("Add", x, net.weight((out,), 64))

    x = inverted_residuals(net, net.input("x", TensorProto.FLOAT, [1, 224, 224, 3]), conv)
    x = net.op("ReduceMean", x, axes=[1, 2], keepdims=0)
    net.save(net.op("Softmax", net.linear(x, 1280, 1000), axis=-1), [1, 1000], path)
