"""conv_transpose: transposed convolution, the gradient of `conv` with respect to its input."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.dim import maximum
from treadle.graph.shape import elements, text
from treadle.ops.conv import check_bias
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    absent_or,
    dims,
    need_float,
    operand,
    optional,
    present,
    rank_at_least,
    result,
    same_dtype,
    widened,
)
from treadle.ops.window import Window


def infer_conv_transpose(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, *S], w [C, M / groups, *K], bias [M] or absent -> [N, M, *out].

    attrs: strides, pads, dilations, groups, output_padding. Each spatial axis grows to
    stride * (size - 1) + output_padding + (kernel - 1) * dilation + 1 - pads.
    """
    x, w, bias = operand(inputs, 0, "x"), operand(inputs, 1, "w"), optional(inputs, 2)
    dtype = same_dtype(("x", x), ("w", w), ("bias", bias))
    need_float(x, "x")
    source, kernel = rank_at_least(x, 3, "x"), dims(w)
    groups = attrs["groups"]
    if len(kernel) != len(source):
        raise ShapeError(f"x and w must have the same rank, got {text(source)} and {text(kernel)}")
    if source[1] != kernel[0]:
        raise ShapeError(f"x has {source[1]} channels, but w {text(kernel)} wants {kernel[0]}")
    if groups < 1 or source[1] % groups:
        raise ShapeError(f"x has {source[1]} channels, which {groups} groups do not divide")
    channels = kernel[1] * groups
    check_bias(bias, channels)
    window = Window.of(kernel[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    return [result(dtype, (source[0], channels, *_output(window, source[2:], attrs["output_padding"])))]


def _output(window: Window, spatial: Sequence[int], output_padding: Sequence[int]) -> tuple[int, ...]:
    if len(output_padding) != len(spatial):
        raise ShapeError(f"output_padding must have {len(spatial)} numbers, got {list(output_padding)}")
    sizes = tuple(
        full - begin - end
        for full, begin, end in zip(
            _uncropped(window, spatial, output_padding), window.pads_begin, window.pads_end, strict=True
        )
    )
    if any(size < 0 for size in sizes):
        raise ShapeError(f"the pads take away more than there is: the result would be {text(sizes)}")
    return sizes


def _uncropped(window: Window, spatial: Sequence[int], output_padding: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        maximum(0, stride * (size - 1) + (kernel - 1) * dilation + 1) + extra
        for size, stride, kernel, dilation, extra in zip(
            spatial, window.strides, window.kernel, window.dilations, output_padding, strict=True
        )
    )


def evaluate_conv_transpose(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, w, bias = present(arrays, 0), present(arrays, 1), absent_or(arrays, 2)
    window = Window.of(w.shape[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    batch, groups, spatial = x.shape[0], attrs["groups"], x.shape[2:]
    channels = w.shape[1] * groups
    sums = np.zeros((batch, channels, *_uncropped(window, spatial, attrs["output_padding"])))
    columns = widened(x).reshape(batch, groups, x.shape[1] // groups, elements(spatial))
    weights = widened(w).reshape(groups, x.shape[1] // groups, w.shape[1], elements(window.kernel))
    with np.errstate(all="ignore"):
        for number, tap in enumerate(window.taps() if x.size else ()):
            spread = weights[..., number].swapaxes(1, 2) @ columns
            sums[window.seen(tap, spatial)] += spread.reshape(batch, channels, *spatial)
        if bias is not None:
            sums += widened(bias).reshape(-1, *(1 for _ in spatial))
        kept = (
            slice(begin, begin + size)
            for begin, size in zip(window.pads_begin, _output(window, spatial, attrs["output_padding"]), strict=True)
        )
        return [np.ascontiguousarray(sums[(slice(None), slice(None), *kept)]).astype(x.dtype)]
