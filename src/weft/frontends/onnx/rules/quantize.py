"""QuantizeLinear and DequantizeLinear with one scale, or one for each place on an axis; DynamicQuantizeLinear."""

from collections.abc import Sequence

from weft import dtypes
from weft.dtypes import DType
from weft.frontends.onnx.build import Builder
from weft.frontends.onnx.node import OnnxNode
from weft.frontends.onnx.rules.requantize import saturated
from weft.frontends.onnx.types import DTYPES
from weft.graph.value import Value

_STORED = (dtypes.u8, dtypes.i8, dtypes.u16, dtypes.i16)


def dequantize(node: OnnxNode, b: Builder) -> Value | None:
    """DequantizeLinear(x, scale, zero) -> (x - zero) scale."""
    x, scale = node.input(0), node.input(1)
    if x.dtype not in (*_STORED, dtypes.i32) or scale.dtype != dtypes.f32 or node.integer("output_dtype", 0):
        return None
    wide = _aligned(node, 1, scale, b)
    if wide is None:
        return None
    number = b.add("cast", x, to=dtypes.f32)
    zero = node.optional(2)
    if zero is not None:
        aligned = _aligned(node, 2, b.add("cast", zero, to=dtypes.f32), b)
        if aligned is None:
            return None
        number = b.add("sub", number, aligned)
    return b.add("mul", number, wide)


def quantize(node: OnnxNode, b: Builder) -> Value | None:
    """QuantizeLinear(x, scale, zero) -> clip(round(x / scale) + zero), as the zero point's type."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    to = _target(node)
    if x.dtype != dtypes.f32 or scale.dtype != dtypes.f32 or to is None or node.integer("precision", 0):
        return None
    wide = _aligned(node, 1, scale, b)
    if wide is None:
        return None
    number = b.add("round", b.add("div", x, wide))
    if zero is not None:
        aligned = _aligned(node, 2, b.add("cast", zero, to=dtypes.f32), b)
        if aligned is None:
            return None
        number = b.add("add", number, aligned)
    return saturated(number, b, to)


def dynamic_quantize(node: OnnxNode, b: Builder) -> Sequence[Value] | None:
    """DynamicQuantizeLinear(x) -> x in steps of 1 / 255 of its range, which holds 0, as u8; the step; what 0 became.

    The scale is (max(0, x) - min(0, x)) / 255, or 1 / 255 where all is 0; its zero point 0 - min(0, x) / scale, rounded.
    """
    x = node.input(0)
    if x.dtype != dtypes.f32:
        return None
    nought = b.scalar(0.0, dtypes.f32)
    high = b.add("max", b.add("reduce_max", x, axes=None, keepdims=False), nought)
    low = b.add("min", b.add("reduce_min", x, axes=None, keepdims=False), nought)
    empty = b.add("eq", high, low)
    span = b.add("where", empty, b.scalar(1.0, dtypes.f32), b.add("sub", high, low))
    steps = b.scalar(255.0, dtypes.f32)
    scale = b.add("div", span, steps)
    zero = b.add("round", b.add("clip", b.add("sub", nought, b.add("div", low, scale)), nought, steps))
    return [
        saturated(b.add("add", b.add("round", b.add("div", x, scale)), zero), b, dtypes.u8),
        scale,
        b.add("cast", zero, to=dtypes.u8),
    ]


def _target(node: OnnxNode) -> DType | None:
    """The element type to quantize to, if it is one that is stored as whole bytes."""
    stated = node.integer("output_dtype", 0)
    found = node.dtype(2) if node.optional(2) is not None else DTYPES.get(stated) if stated else dtypes.u8
    return found if found in _STORED else None


def _aligned(node: OnnxNode, index: int, value: Value, b: Builder) -> Value | None:
    """Operand `index` (as `value`) so that it broadcasts along `axis`; None for blocks or unknown ranks."""
    dims, rank = node.dims(index), node.rank()
    if node.integer("block_size", 0) or dims is None or len(dims) > 1:
        return None
    if not dims or (dims == (1,) and rank != 0):
        return value
    if rank is None:
        return None
    axis = node.axis(node.integer("axis", 1))
    shape = [-1 if index == axis else 1 for index in range(rank)]
    return b.add("reshape", value, b.integers(shape), allowzero=False)
