"""QuantizeLinear and DequantizeLinear with one scale, or one for each place on an axis or block of places;
DynamicQuantizeLinear."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder, Quantized
from treadle.frontends.onnx.known import Dims
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules import low_bits
from treadle.frontends.onnx.rules.requantize import saturated
from treadle.frontends.onnx.types import DTYPES
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import BYTES

_MOVES = ("reshape", "flatten", "squeeze", "unsqueeze", "transpose", "slice", "identity", "max_pool")
"""Core ops that only move, or choose among, the elements of their first operand."""

_STORED = (dtypes.u8, dtypes.i8, dtypes.u16, dtypes.i16)


def dequantize(node: OnnxNode, b: Builder) -> Value | None:
    """DequantizeLinear(x, scale, zero) -> (x - zero) scale."""
    x, scale = node.input(0), node.input(1)
    if x.dtype not in (*_STORED, dtypes.i32) or scale.dtype != dtypes.f32 or node.integer("output_dtype", 0):
        return None
    first = len(b.graph.nodes)
    wide = _aligned(node, 1, scale, b)
    if wide is None:
        return None
    number = _shifted(node, "sub", b.add("cast", x, to=dtypes.f32), b)
    if number is None:
        return None
    result = b.add("mul", number, wide)
    if x in b.few_bits:
        low_bits.remember(node, result, first, b)
    _remember(node, result, b)
    return result


def _remember(node: OnnxNode, result: Value, b: Builder) -> None:
    """Records the quantized operands of `result`, a dequantized value, if scale and zero point are known."""
    x, scale, zero = node.input(0), node.array(1), node.array(2)
    if scale is None or (zero is None and node.optional(2) is not None) or x.dtype not in BYTES or scale.ndim > 1:
        return
    rank = node.rank()
    axis = 0 if scale.size == 1 or rank is None else node.axis(node.integer("axis", 1))
    b.quantized[result] = Quantized(x, scale, np.zeros((), x.dtype.numpy) if zero is None else zero, axis)


def quantize(node: OnnxNode, b: Builder) -> Value | None:
    """QuantizeLinear(x, scale, zero) -> clip(round(x / scale) + zero), as the zero point's type."""
    x, scale = node.input(0), node.input(1)
    to = _target(node)
    if x.dtype != dtypes.f32 or scale.dtype != dtypes.f32 or to is None or node.integer("precision", 0):
        return None
    wide = _aligned(node, 1, scale, b)
    if wide is None:
        return None
    found = _same_again(node, x, to, b)
    if found is not None:
        return found
    number = _shifted(node, "add", b.add("round", b.add("div", x, wide)), b)
    return None if number is None else saturated(number, b, to)


def _repeated(node: OnnxNode, value: Value, dims: Dims, block: int, b: Builder) -> Value | None:
    """`value` of shape `dims`, each place on `axis` `block` times; None where blocks do not fill the axis."""
    shape, axis = node.dims(), node.axis(node.integer("axis", 1))
    if shape is None or block < 0 or axis < 0 or len(dims) != len(shape):
        return None
    sizes = [size for size in dims if size is not None]
    if len(sizes) != len(dims) or sizes[axis] * block != shape[axis]:
        return None
    before, after = sizes[: axis + 1], sizes[axis + 1 :]
    apart = b.add("reshape", value, b.integers([*before, 1, *after]), allowzero=True)
    spread = b.add("expand", apart, b.integers([*before, block, *after]))
    return b.add("reshape", spread, b.integers([*sizes[:axis], sizes[axis] * block, *after]), allowzero=True)


def _same_again(node: OnnxNode, x: Value, to: DType, b: Builder) -> Value | None:
    """Returns the quantized tensor that x was made from, moved like x; None if x is not exactly that."""
    scale, zero = node.array(1), node.array(2)
    if scale is None or (zero is None and node.optional(2) is not None):
        return None
    moves: list[Node] = []
    while x not in b.quantized and x.producer is not None and x.producer.op in _MOVES:
        moves.append(x.producer)
        x = x.producer.operand(0)
    held = b.quantized.get(x)
    if held is None or not held.same_as(scale, np.zeros((), to.numpy) if zero is None else zero):
        return None
    value = held.x
    for move in reversed(moves):
        value = b.add(move.op, value, *move.inputs[1:], **move.attrs)
    return b.add("identity", value) if not moves else value


def dynamic_quantize(node: OnnxNode, b: Builder) -> Sequence[Value] | None:
    """DynamicQuantizeLinear(x) -> x quantized to u8 over its range extended to 0; the scale; the zero point.

    The scale is (max(0, x) - min(0, x)) / 255, or 1 / 255 where all is 0; its zero point 0 - min(0, x) / scale,
    rounded.
    """
    x = node.input(0)
    return None if x.dtype != dtypes.f32 else dynamically_quantized(x, b)


def dynamically_quantized(x: Value, b: Builder) -> tuple[Value, Value, Value]:
    """`x` (f32) as u8, its scale and its zero point, as of DynamicQuantizeLinear."""
    nought = b.scalar(0.0, dtypes.f32)
    high = b.add("max", b.add("reduce_max", x, axes=None, keepdims=False), nought)
    low = b.add("min", b.add("reduce_min", x, axes=None, keepdims=False), nought)
    empty = b.add("eq", high, low)
    span = b.add("where", empty, b.scalar(1.0, dtypes.f32), b.add("sub", high, low))
    steps = b.scalar(255.0, dtypes.f32)
    scale = b.add("div", span, steps)
    zero = b.add("round", b.add("clip", b.add("sub", nought, b.add("div", low, scale)), nought, steps))
    return (
        saturated(b.add("add", b.add("round", b.add("div", x, scale)), zero), b, dtypes.u8),
        scale,
        b.add("cast", zero, to=dtypes.u8),
    )


def _target(node: OnnxNode) -> DType | None:
    """The element type to quantize to, if it is one that is stored as whole bytes."""
    stated = node.integer("output_dtype", 0)
    found = node.dtype(2) if node.optional(2) is not None else DTYPES.get(stated) if stated else dtypes.u8
    return found if found in _STORED else None


def _shifted(node: OnnxNode, op: str, number: Value, b: Builder) -> Value | None:
    """`number` with the zero point, if there is one, added or subtracted as `op` says; None for unknown shapes."""
    zero = node.optional(2)
    if zero is None:
        return number
    aligned = _aligned(node, 2, b.add("cast", zero, to=dtypes.f32), b)
    return None if aligned is None else b.add(op, number, aligned)


def _aligned(node: OnnxNode, index: int, value: Value, b: Builder) -> Value | None:
    """Operand `index` (as `value`) so that it broadcasts along `axis`, or for each block of it; None for unknown
    shapes."""
    dims, rank = node.dims(index), node.rank()
    block = node.integer("block_size", 0)
    if block and dims is not None:
        return _repeated(node, value, dims, block, b)
    if dims is None or len(dims) > 1:
        return None
    if not dims or (dims == (1,) and rank != 0):
        return value
    if rank is None:
        return None
    axis = node.axis(node.integer("axis", 1))
    shape = [-1 if index == axis else 1 for index in range(rank)]
    return b.add("reshape", value, b.integers(shape), allowzero=False)
