"""CausalConvWithState of ai.onnx and of ONNX Runtime (com.microsoft): a depthwise convolution over earlier samples.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.activation import swish_of
from treadle.graph.value import Value

_OTHER = {
    "input_channel_offset": 0, "input_channels": 0, "state_channels_last": -1, "state_length": 0,
    "state_update_capacity": 0, "state_window": 0,
}  # fmt: skip
"""Attributes of com.microsoft that only GPUs know or that keep several states, with the values that mean neither."""


def causal_conv(node: OnnxNode, b: Builder) -> list[Value] | None:
    """CausalConvWithState(x [N, C, L], weights [C, 1, k], bias, past [N, C, k - 1]) -> a convolution of the past and x;
    their last k - 1 samples. Left to the reference where the shape of the weights is not known."""
    return _convolved(node, 1, b)


def causal_conv_of_microsoft(node: OnnxNode, b: Builder) -> list[Value]:
    """CausalConvWithState of com.microsoft: samples of the kernel may be `dilation` apart, channels may come last."""
    for name, nothing in _OTHER.items():
        if node.integer(name, nothing) != nothing:
            raise Unsupported(f"attribute {name!r} must be {nothing}")
    if node.integer("ndim", 1) != 1 or any(node.outputs[2:3]):
        raise Unsupported("attribute 'ndim' must be 1, and there may be no result 'state_update'")
    dilation = node.integer("dilation", 1)
    if not 0 < dilation < 1 << 31:
        raise Fault(f"attribute 'dilation' must be 1 or more, got {dilation}")
    last = node.flag("channels_last", default=False)
    if last and node.rank() != 3:
        raise Unsupported("with 'channels_last' its input must have the shape [batch, length, channels]")
    turned = node.reading(
        [_turned(x, b) if last and x is not None and at in (0, 3) else x for at, x in enumerate(node.inputs)]
    )
    found = _convolved(turned, dilation, b)
    if found is None:
        raise Unsupported("the shape of its weights must be known")
    return [_turned(each, b) for each in found] if last else found


def _turned(value: Value, b: Builder) -> Value:
    """[N, L, C] <-> [N, C, L]."""
    return b.add("transpose", value, perm=(0, 2, 1))


def _convolved(node: OnnxNode, dilation: int, b: Builder) -> list[Value] | None:
    activation = node.choice("activation", "none", "none", "silu", "swish")
    x, weights, past, dims = node.input(0), node.input(1), node.optional(3), node.dims(1)
    if dims is None or len(dims) != 3 or dims[0] is None or dims[2] is None or x.dtype is None:
        return None
    channels, size = dims[0], dims[2]
    if dims[1] not in (1, None) or size < 1:
        raise Fault(f"its weights must have the shape [channels, 1, size], got {list(dims)}")
    kept = (size - 1) * dilation
    if past is None:
        whole = b.add("pad", x, b.integers([0, 0, kept, 0, 0, 0]), None, None, mode="constant")
    else:
        whole = b.add("concat", past, x, axis=2)
    found = b.add(
        "conv", whole, weights, node.optional(2), strides=(1,), pads=(0, 0), dilations=(dilation,), groups=channels
    )
    if activation != "none":
        found = b.cast(swish_of(b.cast(found, dtypes.f32), 1.0, b), x.dtype)
    bounds = [[-kept], [(1 << 63) - 1], [2]] if kept else [[0], [0], [2]]
    return [found, b.add("slice", whole, *map(b.integers, bounds))]
