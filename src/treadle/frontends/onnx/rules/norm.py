"""Normalisations, for inference: results that only training reads are left to the reference."""

import numpy as np

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_LEAST_DEVIATION = 1e-9
"""What MeanVarianceNormalization adds to standard deviations."""


def batch_norm(node: OnnxNode, b: Builder) -> Value | None:
    if node.flag("training_mode", default=False) or len(node.outputs) > 1:
        return None
    if not node.flag("spatial", default=True):
        raise Fault("attribute 'spatial' is 0; statistics for each element are not part of ONNX since opset 9")
    return b.add("batch_norm", *(node.input(index) for index in range(5)), epsilon=node.number("epsilon", 1e-5))


def instance_norm(node: OnnxNode, b: Builder) -> Value:
    return b.add("instance_norm", node.input(0), node.input(1), node.input(2), epsilon=node.number("epsilon", 1e-5))


def group_norm(node: OnnxNode, b: Builder) -> Value | None:
    """GroupNormalization -> group_norm; before opset 21 scale and bias had one number a group."""
    groups, dims = node.integer("num_groups", 0), node.dims()
    scale, bias = node.input(1), node.input(2)
    if node.version < 21:
        channels = dims[1] if dims is not None and len(dims) > 1 else None
        if channels is None or groups < 1 or channels % groups:
            return None
        indices = b.constant(np.repeat(np.arange(groups), channels // groups))
        scale, bias = (b.add("gather", value, indices, axis=0) for value in (scale, bias))
    return b.add("group_norm", node.input(0), scale, bias, epsilon=node.number("epsilon", 1e-5), groups=groups)


def layer_norm(node: OnnxNode, b: Builder) -> Value | None:
    if len(node.outputs) > 1 or node.dtype(1) != node.dtype(0):
        return None
    return b.add(
        "layer_norm",
        node.input(0),
        node.optional(1),
        node.optional(2),
        axis=node.axis(node.integer("axis", -1)),
        epsilon=node.number("epsilon", 1e-5),
    )


def rms_norm(node: OnnxNode, b: Builder) -> Value | None:
    if node.dtype(1) != node.dtype(0):
        return None
    return b.add(
        "rms_norm",
        node.input(0),
        node.input(1),
        axis=node.axis(node.integer("axis", -1)),
        epsilon=node.number("epsilon", 1e-5),
    )


def lrn(node: OnnxNode, b: Builder) -> Value:
    return b.add(
        "lrn",
        node.input(0),
        size=node.integer("size", 0),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )


def lp_normalization(node: OnnxNode, b: Builder) -> Value | None:
    """LpNormalization(x) -> x / the sum of |x|, or the root of that of x^2, along an axis; 0 where all x are 0."""
    x, power = node.input(0), node.integer("p", 2)
    if power not in (1, 2):
        raise Fault(f"attribute 'p' must be 1 or 2, got {power}")
    if x.dtype is None:
        return None
    over = {"axes": (node.axis(node.integer("axis", -1)),), "keepdims": True}
    if power == 1:
        norm = b.add("reduce_sum", b.add("abs", x), **over)
    else:
        norm = b.add("sqrt", b.add("reduce_sum", b.add("mul", x, x), **over))
    is_zero = b.add("eq", norm, b.scalar(0, x.dtype))
    return b.add("div", x, b.add("where", is_zero, b.scalar(1, x.dtype), norm))


def mean_variance(node: OnnxNode, b: Builder) -> Value | None:
    """MeanVarianceNormalization(x) -> (x - mean) / (standard deviation + 1e-9), over `axes`."""
    x = node.input(0)
    if x.dtype is None:
        return None
    stated = node.integers("axes")
    over = {"axes": node.axes((0, 2, 3) if stated is None else stated), "keepdims": True}
    centred = b.add("sub", x, b.add("reduce_mean", x, **over))
    deviation = b.add("sqrt", b.add("reduce_mean", b.add("mul", centred, centred), **over))
    return b.add("div", centred, b.add("add", deviation, b.scalar(_LEAST_DEVIATION, x.dtype)))
