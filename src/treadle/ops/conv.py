"""conv: convolution (cross-correlation) over any number of spatial axes."""

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape, elements, text
from treadle.ops.epilogue import apply_epilogue, infer_epilogue
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    BYTES,
    absent_or,
    as_factor,
    as_sums,
    dims,
    need_float,
    operand,
    optional,
    present,
    product_dtype,
    rank_at_least,
    rounded_alike,
    sums_dtype,
    widened,
)
from treadle.ops.window import Window, pads_of


def infer_conv(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, *S], w [M, C / groups, *K], bias [M] or absent -> [N, M, *out].

    attrs: strides, pads (begins, then ends; or one of window.SAME), dilations, groups; optional epilogue, whose
    operands start at 3, and exact: factors are integers whose sums are exact, which kernels keep so. A bf16 x and f32
    weights give f32: the weights are rounded to bf16 before they are multiplied. x and w of 8 bits, u8 or i8 each, give
    i32: exact sums, modulo 2 ** 32, of w and x less the attribute `zero` (absent: 0), which is what padding holds.
    """
    x, w, bias = operand(inputs, 0, "x"), operand(inputs, 1, "w"), optional(inputs, 2)
    dtype = product_dtype(("x", x), ("w", w), ("bias", bias))
    if x.dtype in BYTES:
        check_zero(attrs.get("zero", 0), x.dtype)
    else:
        need_float(x, "x")
    source, kernel = rank_at_least(x, 3, "x"), dims(w)
    groups = attrs["groups"]
    if len(kernel) != len(source):
        raise ShapeError(f"x and w must have the same rank, got {text(source)} and {text(kernel)}")
    if groups < 1 or source[1] != kernel[1] * groups:
        raise ShapeError(
            f"x has {source[1]} channels, but w {text(kernel)} with {groups} groups wants {kernel[1] * groups}"
        )
    if kernel[0] % groups:
        raise ShapeError(f"w gives {kernel[0]} channels, which {groups} groups do not divide")
    check_bias(bias, kernel[0])
    window = _window(attrs, source, kernel)
    shape = (source[0], kernel[0], *window.output(source[2:]))
    return infer_epilogue(attrs, dtype, shape, inputs, 3)


def _window(attrs: Attrs, source: StaticShape, kernel: StaticShape) -> Window:
    pads = pads_of(attrs, source[2:], kernel[2:])
    return Window.of(kernel[2:], attrs["strides"], pads, attrs["dilations"])


def check_zero(zero: int, dtype: DType) -> None:
    """Raise ShapeError unless `zero` is a number of the 8-bit `dtype`."""
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= zero <= limits.max:
        raise ShapeError(f"zero must be from {limits.min} to {limits.max}, got {zero}")


def check_bias(bias: Info | None, channels: int) -> None:
    """Raise ShapeError unless `bias` is absent or [channels]."""
    if bias is not None and dims(bias) != (channels,):
        raise ShapeError(f"bias must be [{channels}], got {text(dims(bias))}")


def evaluate_conv(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, w, bias = present(arrays, 0), present(arrays, 1), absent_or(arrays, 2)
    window = _window(attrs, x.shape, w.shape)
    out = window.output(x.shape[2:])
    batch, groups = x.shape[0], attrs["groups"]
    padded = np.pad(
        as_factor(x) - attrs.get("zero", 0), ((0, 0), (0, 0), *zip(window.pads_begin, window.pads_end, strict=True))
    )
    weights = as_factor(rounded_alike(w, x)).reshape(groups, w.shape[0] // groups, w.shape[1], elements(window.kernel))
    sums = np.zeros((batch, groups, weights.shape[1], elements(out)))
    with np.errstate(all="ignore"):
        for number, tap in enumerate(window.taps()):
            met = padded[window.seen(tap, out)]
            sums += weights[..., number] @ met.reshape(batch, groups, w.shape[1], elements(out))
        total = sums.reshape(batch, w.shape[0], *out)
        if bias is not None:
            total += widened(bias).reshape(-1, *(1 for _ in out))
        result = as_sums(total, sums_dtype(w))
    return apply_epilogue(attrs, result, arrays, 3)
