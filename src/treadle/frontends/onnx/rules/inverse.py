"""Inverse of com.microsoft."""

from __future__ import annotations

from treadle import dtypes
from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value


def inverse(node: OnnxNode, b: Builder) -> Value:
    """Inverse(x) -> inverse; of numbers of 16 bits in f32."""
    x = node.input(0)
    if x.dtype is None:
        raise Unsupported("the element type of its operand must be known")
    wide = x if x.dtype in (dtypes.f32, dtypes.f64) else b.cast(x, dtypes.f32)
    return b.cast(b.add("inverse", wide), x.dtype)
