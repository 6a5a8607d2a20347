"""Products of dequantized values, the QDQ format that quantize_static writes.

Instead of the dequantized factors (x - x_zero) x_scale and (w - w_zero) w_scale the integers are multiplied, and their
exact sums are scaled once.
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.build import Builder, Quantized
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.window import SameWindow, Window, conv_over
from treadle.graph.value import Value
from treadle.ops.op import Array

_QUAD = 4
"""The depth that one VNNI dot product covers."""


def conv_of_quantized(node: OnnxNode, window: Window | SameWindow, b: Builder) -> Value | None:
    """The Conv of a dequantized image and constant dequantized weights; None if they are not."""
    held = _both(node.input(0), node.input(1), b)
    if held is None or len(window.kernel) > 2:
        return None
    x, weights = held
    signed = _signed(weights, b, axis=0)
    if signed is None or signed.ndim != len(window.kernel) + 2:
        return None
    sums = conv_over(node, window, x.x, b.constant(signed), None, b, zero=int(x.zero.item()))
    beside = [-1, *(1 for _ in window.kernel)]
    result = _scaled(sums, x, weights, beside, b)
    bias = node.optional(2)
    return result if bias is None else b.add("add", result, b.add("reshape", bias, b.integers(beside), allowzero=False))


def matmul_of_quantized(left: Value, right: Value, b: Builder, *, transposed: bool) -> Value | None:
    """The product of a dequantized matrix with a constant dequantized one, which may come `transposed`; None if they
    are not."""
    held = _both(left, right, b)
    if held is None:
        return None
    a, weights = held
    data = b.known.array(weights.x)
    if data is None or data.ndim != 2 or data.shape[transposed] % _QUAD:
        return None
    signed = _signed(weights, b, axis=0 if transposed else 1)
    if signed is None:
        return None
    sums = b.add("matmul", a.x, b.constant(signed), transpose_a=False, transpose_b=transposed)
    zero = int(a.zero.item())
    if zero:
        columns = signed.sum(axis=int(transposed), dtype=np.int32)
        sums = b.add("sub", sums, b.constant(np.asarray(zero * columns, np.int32)))
    return _scaled(sums, a, weights, [-1], b)


def _both(left: Value, right: Value, b: Builder) -> tuple[Quantized, Quantized] | None:
    """What both factors came from, if the left one has one scale."""
    x, weights = b.quantized.get(left), b.quantized.get(right)
    if x is None or weights is None or x.scale.size != 1 or x.zero.size != 1:
        return None
    return x, weights


def _signed(weights: Quantized, b: Builder, axis: int) -> Array | None:
    """Constant weights less their zero points as i8, if that fits and scales stand for places on `axis`."""
    data = b.known.array(weights.x)
    if data is None or data.size == 0 or (weights.scale.size != 1 and weights.axis != axis):
        return None
    shape = [-1 if place == axis else 1 for place in range(data.ndim)] if weights.zero.size != 1 else [1] * data.ndim
    less = data.astype(np.int32) - weights.zero.astype(np.int32).reshape(shape)
    return less.astype(np.int8) if less.min() >= -128 and less.max() <= 127 else None


def _scaled(sums: Value, x: Quantized, weights: Quantized, beside: list[int], b: Builder) -> Value:
    """The sums as f32, times both scales; those of weights are laid out as `beside` if there are several."""
    factor = x.scale.reshape(-1)[0] * weights.scale
    several = factor.reshape(beside) if factor.size != 1 else factor.reshape(())
    return b.add("mul", b.add("cast", sums, to=dtypes.f32), b.constant(np.asarray(several, np.float32)))
