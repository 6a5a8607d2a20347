"""Convolutions of quantized numbers: ConvInteger and QLinearConv.

With constant weights, 8-bit numbers are multiplied as they are. Sums are exact, modulo 2 ** 32.
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.conv import kernel_of
from treadle.frontends.onnx.rules.requantize import INTEGER, QUANTIZED, Places, requantized_sums, wide
from treadle.frontends.onnx.rules.window import Window, conv_over, window_of
from treadle.graph.value import Value
from treadle.ops.op import Array
from treadle.ops.operands import BYTES
from treadle.records import dataclass

_EXACT = 1 << 24
"""Largest sum of absolute values of integers that f32 adds exactly in any order."""


def conv_integer(node: OnnxNode, b: Builder) -> Value | None:
    """ConvInteger(x, w, zero points) -> the convolution of x - x_zero with w - w_zero, in i32."""
    return window_sums(node, INTEGER, None, b)


def qlinear_conv(node: OnnxNode, b: Builder) -> Value | None:
    """QLinearConv -> the sums, and the bias, times x_scale w_scale / y_scale, rounded, plus y_zero, as its type."""
    to, rank = node.dtype(7), node.rank(3)
    scales = [_for_channels(node, index, node.input(index), rank, b) for index in (1, 4, 6)]
    zero = _for_channels(node, 7, node.input(7), rank, b)
    if to not in BYTES or zero is None or any(scale is None or scale.dtype != dtypes.f32 for scale in scales):
        return None
    sums = window_sums(node, QUANTIZED, node.optional(8), b)
    if sums is None:
        return None
    x_scale, w_scale, y_scale = scales
    return requantized_sums(sums, b.add("div", b.add("mul", x_scale, w_scale), y_scale), zero, to, b)


def window_sums(node: OnnxNode, at: Places, bias: Value | None, b: Builder) -> Value | None:
    """bias + conv(x - x_zero, w - w_zero) in i32; None if a shape that it depends on is unknown."""
    x, weights = node.input(at.a), node.input(at.b)
    if x.dtype not in BYTES or weights.dtype not in BYTES:
        return None
    kernel = kernel_of(node, at.b)
    window = None if kernel is None else window_of(node, kernel)
    if not isinstance(window, Window):
        return None
    if node.optional(at.a_zero) is not None and node.dims(at.a_zero) not in ((), (1,)):
        return None
    held = _byte_weights(node, at)
    sums = _window_of_bytes(node, at, window, held, b) if held else _window_of_differences(node, at, window, b)
    if sums is None or bias is None:
        return sums
    return b.add("add", sums, b.add("reshape", bias, b.integers([-1, *(1 for _ in window.kernel)]), allowzero=False))


@dataclass(frozen=True, slots=True)
class _ByteWeights:
    """w - w_zero as i8 numbers plus an `offset`, one number or one for each output channel; None: 0."""

    numbers: Array
    offset: Array | None


def _byte_weights(node: OnnxNode, at: Places) -> _ByteWeights | None:
    """Constant w - w_zero; None if they are not constant, or an offset needs sums of windows that are not exact.

    The range of w - w_zero has 9 bits unless w_zero is 0 of i8 or 128 of u8.
    """
    given = node.array(at.b)
    zero = np.zeros((), np.int32) if node.optional(at.b_zero) is None else node.array(at.b_zero)
    if given is None or zero is None:
        return None
    if zero.size not in (1, given.shape[0]):
        raise Fault(f"w_zero_point must have 1 element or {given.shape[0]}, got {zero.size}")
    weights = given.astype(np.int32)
    by_channels = zero.astype(np.int32).reshape(-1, *(1 for _ in weights.shape[2:]))
    less = weights - by_channels[:, np.newaxis]
    if less.size == 0 or (less.min() >= -128 and less.max() <= 127):
        return _ByteWeights(less.astype(np.int8), None)
    if node.integer("group", 1) != 1 or weights[0].size * 255 > _EXACT:
        return None
    middle = 128 if given.dtype == np.uint8 else 0
    return _ByteWeights((weights - middle).astype(np.int8), middle - by_channels)


def _window_of_bytes(node: OnnxNode, at: Places, window: Window, held: _ByteWeights, b: Builder) -> Value:
    """The sums as those of the numbers, plus the offset times the sums of x - x_zero in each window."""
    x, x_zero, known = node.input(at.a), node.optional(at.a_zero), node.array(at.a_zero)
    if x_zero is not None and known is None:
        sums = _with_zero_of_the_run(node, x, x_zero, held.numbers, window, b)
        less = b.add("cast", b.as_scalar(x_zero), to=dtypes.f32)
    else:
        number = 0 if known is None else int(known.item())
        sums = conv_over(node, window, x, b.constant(held.numbers), None, b, zero=number)
        less = b.scalar(number, dtypes.f32)
    if held.offset is None:
        return sums
    totals = _window_totals(node, x, less, held.numbers.shape, window, b)
    return b.add("add", sums, b.add("mul", totals, b.constant(held.offset)))


def _window_totals(node: OnnxNode, x: Value, zero: Value, shape: tuple[int, ...], window: Window, b: Builder) -> Value:
    """The sum of x - zero in each window, [n, 1, ...] in i32, for weights of this shape; f32 adds them exactly."""
    pixels = b.add("reduce_sum", b.add("cast", x, to=dtypes.f32), axes=(1,), keepdims=True)
    pixels = b.add("sub", pixels, b.add("mul", zero, b.scalar(float(shape[1]), dtypes.f32)))
    ones = b.constant(np.ones((1, 1, *shape[2:]), np.float32))
    return wide(conv_over(node, window, pixels, ones, None, b, exact=True), b)


def _with_zero_of_the_run(node: OnnxNode, x: Value, zero: Value, weights: Array, window: Window, b: Builder) -> Value:
    """Returns the sums for a zero point that is computed at run time: it pads the image and is subtracted from the
    sums."""
    scalar = b.as_scalar(zero)
    rank = len(window.kernel)
    if any(window.pads):
        widths = b.integers([0, 0, *window.pads[:rank], 0, 0, *window.pads[rank:]])
        x = b.add("pad", x, widths, scalar, mode="constant")
    bare = Window(window.kernel, window.strides, (0,) * (2 * rank), window.dilations)
    sums = conv_over(node, bare, x, b.constant(weights), None, b, zero=0)
    each = weights.reshape(weights.shape[0], -1).sum(axis=1, dtype=np.int32).reshape(-1, *(1 for _ in range(rank)))
    return b.add("sub", sums, b.add("mul", wide(scalar, b), b.constant(each)))


def _window_of_differences(node: OnnxNode, at: Places, window: Window, b: Builder) -> Value | None:
    """The sums of factors of which not both fit 8 bits once their zero points are subtracted: exact in f64."""
    sides = []
    for index, zero_at in ((at.a, at.a_zero), (at.b, at.b_zero)):
        number = b.add("cast", node.input(index), to=dtypes.f64)
        zero = node.optional(zero_at)
        if zero is not None:
            aligned = _for_channels(
                node, zero_at, b.add("cast", zero, to=dtypes.f64), len(window.kernel) + 2, b, first=True
            )
            if aligned is None:
                return None
            number = b.add("sub", number, aligned)
        sides.append(number)
    sums = conv_over(node, window, sides[0], sides[1], None, b)
    return wide(b.add("cast", sums, to=dtypes.i64), b)


def _for_channels(
    node: OnnxNode, index: int, value: Value, rank: int | None, b: Builder, *, first: bool = False
) -> Value | None:
    """`value` made of operand `index` (one number, or one a channel) so that it broadcasts along channels.

    `first`: those are the first axis, as in weights. None for other shapes.
    """
    dims = node.dims(index)
    if dims is None or rank is None or len(dims) > 1:
        return None
    if not dims or dims == (1,):
        return b.as_scalar(value)
    return b.add("reshape", value, b.integers([-1, *(1 for _ in range(rank - 2 + first))]), allowzero=False)
