"""Normalisations, for inference: results that only training reads are left to the reference."""

import numpy as np

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value


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
