"""Matrix products of quantized numbers: MatMulInteger and QLinearMatMul.

With constant weights, 8-bit numbers are multiplied as they are and zero points are subtracted from the sums:
sum (a - za)(b - zb) = sum a b - za sum b - zb (sum a - K za). Sums are exact, modulo 2 ** 32.
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.requantize import INTEGER, QUANTIZED, Places, requantized_sums, wide
from treadle.graph.value import Value
from treadle.ops.operands import BYTES

_EXACT_DEPTH = (1 << 24) // (255 * 255)
"""The largest depth at which f32 sums products of differences of 8-bit numbers exactly."""


def matmul_integer(node: OnnxNode, b: Builder) -> Value | None:
    """MatMulInteger(a, b, zero points) -> (i32(a) - a_zero) (i32(b) - b_zero)."""
    return matrix_sums(node, INTEGER, b)


def qlinear_matmul(node: OnnxNode, b: Builder) -> Value | None:
    """QLinearMatMul -> the sums times a_scale b_scale / y_scale, rounded, plus y_zero, as the type of y_zero."""
    to = node.dtype(7)
    scales = [_beside(node.input(index), node.input(index), rows=index == 1, b=b) for index in (1, 4, 6)]
    zero = _beside(node.input(7), node.input(7), rows=True, b=b)
    if to not in BYTES or zero is None or any(scale is None or scale.dtype != dtypes.f32 for scale in scales):
        return None
    sums = matrix_sums(node, QUANTIZED, b)
    if sums is None:
        return None
    a_scale, b_scale, y_scale = scales
    return requantized_sums(sums, b.add("div", b.add("mul", a_scale, b_scale), y_scale), zero, to, b)


def matrix_sums(node: OnnxNode, at: Places, b: Builder) -> Value | None:
    """The sums of the operands of `node` that are `at` these places, as `product_sums` gives them."""
    return product_sums(node.input(at.a), node.input(at.b), node.optional(at.a_zero), node.optional(at.b_zero), b)


def product_sums(left: Value, right: Value, a_zero: Value | None, b_zero: Value | None, b: Builder) -> Value | None:
    """(left - a_zero) @ (right - b_zero) in i32; None where zero points do not stand for rows of `left` and columns of
    `right`."""
    if left.dtype not in BYTES or right.dtype not in BYTES:
        return None
    zeros = [
        None if zero is None else _beside(zero, wide(zero, b), rows=rows, b=b)
        for zero, rows in ((a_zero, True), (b_zero, False))
    ]
    if (zeros[0] is None and a_zero is not None) or (zeros[1] is None and b_zero is not None):
        return None
    weights, known = b.known.array(right), None if b_zero is None else b.known.array(b_zero)
    if weights is None or weights.ndim < 2 or (b_zero is not None and known is None):
        return _product_of_differences((left, right), zeros, b)
    less = 0 if weights.dtype == np.int8 else 128
    held = b.constant((weights.astype(np.int32) - less).astype(np.int8)) if less else right
    offset = np.asarray(0 if known is None else known.astype(np.int32)) - less
    sums = b.add("matmul", left, held, transpose_a=False, transpose_b=False)
    if zeros[0] is not None:
        columns = weights.sum(axis=-2, keepdims=True, dtype=np.int32) - weights.shape[-2] * (offset + less)
        sums = b.add("sub", sums, b.add("mul", zeros[0], b.constant(columns.astype(np.int32))))
    if offset.any():
        rows = b.add("reduce_sum", wide(left, b), axes=(-1,), keepdims=True)
        sums = b.add("sub", sums, b.add("mul", rows, b.constant(offset.astype(np.int32))))
    return sums


def _product_of_differences(factors: tuple[Value, Value], zeros: list[Value | None], b: Builder) -> Value:
    """The same of factors that are not constant: in f32 where few numbers are summed, so that sums are exact."""
    dims = b.known.dims(factors[0])
    depth = dims[-1] if dims else None
    to = dtypes.f32 if depth is not None and depth <= _EXACT_DEPTH else dtypes.i32
    sides = []
    for factor, zero in zip(factors, zeros, strict=True):
        number = b.add("cast", factor, to=to)
        sides.append(number if zero is None else b.add("sub", number, b.add("cast", zero, to=to)))
    return b.cast(b.add("matmul", *sides, transpose_a=False, transpose_b=False), dtypes.i32)


def _beside(operand: Value, value: Value, *, rows: bool, b: Builder) -> Value | None:
    """`value` made of `operand` (one number, or one a row or column) so that it broadcasts to the product.

    None if it is unknown which axis its elements belong to.
    """
    dims = b.known.dims(operand)
    if dims is None or None in dims:
        return None
    if len(dims) == 1 and dims != (1,) and rows:
        return b.add("reshape", value, b.integers([-1, 1]), allowzero=False)
    if dims == (1,):
        return b.as_scalar(value)
    return value
