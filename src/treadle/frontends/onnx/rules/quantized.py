"""Operators of ONNX Runtime that compute with quantized tensors (com.microsoft): dequantized, computed in f32, rounded.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.build import Builder, Quantized
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules import pool
from treadle.frontends.onnx.rules.dequantized import matmul_of_quantized
from treadle.frontends.onnx.rules.integer_matmul import product_sums
from treadle.frontends.onnx.rules.quantize import dynamically_quantized
from treadle.frontends.onnx.rules.requantize import requantized
from treadle.frontends.onnx.rules.rule import Rule
from treadle.graph.value import Value
from treadle.records import dataclass

_AFTER_ROUNDING = 3
"""The operand number of the result's scale in an operator with one tensor; its zero point follows."""


def binary(op: str) -> Rule:
    """A rule for two tensors: `op` of them, which broadcast."""

    def rule(node: OnnxNode, b: Builder) -> Value:
        return _stored(node, 6, b.add(op, _real(node, 0, b), _real(node, 3, b)), b)

    return rule


def sigmoid(node: OnnxNode, b: Builder) -> Value:
    return _stored(node, _AFTER_ROUNDING, b.add("sigmoid", _real(node, 0, b)), b)


def leaky_relu(node: OnnxNode, b: Builder) -> Value:
    x = _real(node, 0, b)
    nought = b.scalar(0.0, dtypes.f32)
    slope = b.add("mul", x, b.scalar(node.number("alpha", 0.01), dtypes.f32))
    return _stored(node, _AFTER_ROUNDING, b.add("where", b.add("lt", x, nought), slope, x), b)


def softmax(node: OnnxNode, b: Builder) -> Value:
    """QLinearSoftmax over one axis; before opset 13 the axis must be the last, over which both meanings agree."""
    old = node.integer("opset", 13) < 13
    axis, rank = node.axis(node.integer("axis", 1 if old else -1)), node.rank()
    if old and axis not in (-1, None if rank is None else rank - 1):
        raise Unsupported(f"attribute 'axis' must be that of the last dimension for opset {node.integer('opset', 13)}")
    return _stored(node, _AFTER_ROUNDING, b.add("softmax", _real(node, 0, b), axis=axis), b)


def global_average_pool(node: OnnxNode, b: Builder) -> Value:
    rank = node.rank()
    if rank is None:
        raise Unsupported("the rank of its input must be known")
    last = node.flag("channels_last", default=False)
    axes = tuple(range(1, rank - 1) if last else range(2, rank))
    return _stored(node, _AFTER_ROUNDING, b.add("reduce_mean", _real(node, 0, b), axes=axes, keepdims=True), b)


def average_pool(node: OnnxNode, b: Builder) -> Value:
    if node.flag("channels_last", default=False):
        raise Unsupported("attribute 'channels_last' must be 0")
    found = pool.average_pool(node, b, _real(node, 0, b))
    if found is None:
        raise Unsupported("the size of its input must be known for SAME padding")
    return _stored(node, _AFTER_ROUNDING, found, b)


def concat(node: OnnxNode, b: Builder) -> Value:
    """QLinearConcat(y_scale, y_zero, (tensor, scale, zero) ...): those of the result's scale and zero point stay as
    they are."""
    parts = [_stored(node, 0, _real(node, at, b), b) for at in range(2, len(node.inputs), 3)]
    return b.add("concat", *parts, axis=node.axis(node.integer("axis", 0), 2))


def where(node: OnnxNode, b: Builder) -> Value:
    """QLinearWhere(condition, x, y) -> where(condition, x, y), both with the scale and zero point of the result."""
    x, y = (_stored(node, 7, _real(node, at, b), b) for at in (1, 4))
    return b.add("where", node.input(0), x, y)


def reduce_mean(node: OnnxNode, b: Builder) -> Value:
    axes, keepdims = node.axes(node.integers("axes") or ()), node.flag("keepdims", default=True)
    found = b.add("reduce_mean", _real(node, 0, b), axes=axes, keepdims=keepdims)
    return _stored(node, _AFTER_ROUNDING, found, b)


def multiply_integers(node: OnnxNode, b: Builder) -> Value:
    """MulInteger(a, a_zero, c, c_zero) -> (a - a_zero) (c - c_zero) in i32."""
    sides = []
    for at in (0, 2):
        side, zero = b.add("cast", node.input(at), to=dtypes.i32), node.optional(at + 1)
        sides.append(side if zero is None else b.add("sub", side, b.add("cast", zero, to=dtypes.i32)))
    return b.add("mul", *sides)


def gemm(node: OnnxNode, b: Builder) -> Value:
    """QGemm(a, b, c) -> (alpha a b) + c in steps of alpha a_scale b_scale, rounded if there is a scale to round to."""
    turned, across = (node.flag(name, default=False) for name in ("transA", "transB"))
    alpha = node.number("alpha", 1.0)
    a, right = _real(node, 0, b), _real(node, 3, b, axis=0 if across else 1)
    found = None if turned else matmul_of_quantized(a, right, b, transposed=across)
    if found is None:
        found = b.add("matmul", a, right, transpose_a=turned, transpose_b=across)
    if alpha != 1:
        found = b.add("mul", found, b.scalar(alpha, dtypes.f32))
    c = node.optional(6)
    if c is not None:
        step = b.add("mul", b.add("mul", node.input(1), node.input(4)), b.scalar(alpha, dtypes.f32))
        found = b.add("add", found, b.add("mul", b.add("cast", c, to=dtypes.f32), step))
    return found if node.optional(7) is None else _stored(node, 7, found, b)


def matmul_to_float(node: OnnxNode, b: Builder) -> Value:
    """MatMulIntegerToFloat -> the exact sums times both scales, plus the bias."""
    a = Steps(node.input(0), node.input(2), node.optional(4))
    weights = Steps(node.input(1), node.input(3), node.optional(5))
    return scaled_product(a, weights, node.optional(6), b)


def dynamic_matmul(node: OnnxNode, b: Builder) -> Value:
    """DynamicQuantizeMatMul(a, w, w_scale, w_zero, bias) -> a quantized over its range, multiplied by w."""
    a = Steps(*dynamically_quantized(node.input(0), b))
    return scaled_product(a, Steps(node.input(1), node.input(2), node.optional(3)), node.optional(4), b)


@dataclass(frozen=True, slots=True)
class Steps:
    """A quantized matrix: (x - zero) scale."""

    x: Value
    scale: Value
    zero: Value | None


def scaled_product(a: Steps, weights: Steps, bias: Value | None, b: Builder) -> Value:
    """The exact sums of the product of two quantized matrices, times both scales, plus `bias`."""
    sums = product_sums(a.x, weights.x, a.zero, weights.zero, b)
    if sums is None:
        raise Unsupported("the shapes of its zero points must be known")
    scale = b.add("mul", a.scale, weights.scale)
    result = b.add("mul", b.add("cast", sums, to=dtypes.f32), scale)
    return result if bias is None else b.add("add", result, bias)


def _real(node: OnnxNode, at: int, b: Builder, axis: int | None = None) -> Value:
    """The tensor at operand `at`, whose scale and zero point follow, as f32; they may be those of places on `axis`."""
    x, scale, zero = node.input(at), node.input(at + 1), node.optional(at + 2)
    if x.dtype == dtypes.f32:
        return x
    number = b.add("cast", x, to=dtypes.f32)
    if zero is not None:
        number = b.add("sub", number, _along(node, at + 2, b.add("cast", zero, to=dtypes.f32), axis, b))
    result = b.add("mul", number, _along(node, at + 1, scale, axis, b))
    steps, offset = node.array(at + 1), node.array(at + 2)
    if x.dtype is not None and steps is not None and (zero is None or offset is not None):
        held = np.zeros((), x.dtype.numpy) if offset is None else offset
        b.quantized[result] = Quantized(x, steps, held, axis or 0)
    return result


def _along(node: OnnxNode, index: int, value: Value, axis: int | None, b: Builder) -> Value:
    """`value`, made of operand `index`, so that it broadcasts along `axis` of a matrix, or to all of a tensor."""
    dims = node.dims(index)
    if dims is not None and all(dim == 1 for dim in dims):
        return b.as_scalar(value)
    if dims is None or len(dims) != 1 or axis is None:
        raise Unsupported(f"its input number {index} must have one element" + (" or one a column" if axis else ""))
    return b.add("reshape", value, b.integers([-1, 1] if axis == 0 else [1, -1]), allowzero=False)


def _stored(node: OnnxNode, at: int, number: Value, b: Builder) -> Value:
    """`number` in steps of the scale at operand `at`, as the type of the zero point that follows, or of operand 0."""
    scale, zero = node.input(at), node.optional(at + 1)
    to = (node.input(0) if zero is None else zero).dtype
    steps, offset, held = node.array(at), node.array(at + 1), b.quantized.get(number)
    if to is None:
        raise Unsupported("the element type of its result must be known")
    none = np.zeros((), to.numpy)
    if held is not None and steps is not None and held.same_as(steps, none if zero is None else np.asarray(offset)):
        return held.x
    start = b.constant(none) if zero is None else _along(node, at + 1, zero, None, b)
    return requantized(b.add("div", number, _along(node, at, scale, None, b)), start, to, b)
