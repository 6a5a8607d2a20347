"""Where max pools find their results: the indices that they return beside the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.create import arange
from treadle.frontends.torch.rules.shape import constant_pad
from treadle.graph.dim import maximum
from treadle.graph.value import Value


def max_positions(
    b: Builder,
    x: Value,
    pooled: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Returns for each element of `pooled` where it is in its plane of `x`, counted row by row: i64.

    Of equal elements it is the first one, of several NaN the last one. One axis after the other is searched, the last
    one first; padding is never found.
    """
    rank, lowest = len(kernel), _lowest(x)
    best = x
    places: Value | None = None
    start = b.scalar(0, dtypes.i64)  # where windows of nothing but the least number have theirs: at their begin
    pitch = 1
    for axis, (size, stride, pad, step) in reversed(
        list(enumerate(zip(kernel, strides, pads, dilations, strict=True), b.rank(x) - rank))
    ):
        count, length = b.shape(pooled)[axis], b.shape(x)[axis]
        behind = maximum(0, (count - 1) * stride + (size - 1) * step + 1 - pad - length)
        widths = [*(0,) * (2 * (b.rank(x) - 1 - axis)), pad, behind]
        padded = constant_pad(b, best, widths, lowest)
        padded_places = None if places is None else constant_pad(b, places, widths)
        spread = [count if at == axis else 1 for at in range(b.rank(x))]
        begins = b.reshape(b.add("mul", arange(b, count), b.scalar(stride, dtypes.i64)), spread)
        begins = b.add("sub", begins, b.scalar(pad, dtypes.i64))
        start = b.add("add", start, _times(b, _first_inside(b, begins, step), pitch))
        best, found_at = b.scalar(lowest, x.known_dtype), start
        for at in range(0, size * step, step):
            found = b.slice(padded, axis, at, at + (count - 1) * stride + 1, stride)
            here = _times(b, b.add("add", begins, b.scalar(at, dtypes.i64)), pitch)
            if padded_places is not None:
                inner = b.slice(padded_places, axis, at, at + (count - 1) * stride + 1, stride)
                here = b.add("add", here, inner)
            is_larger = b.add("gt", found, best)
            if x.known_dtype.is_float:
                is_larger = b.add("or", is_larger, b.add("isnan", found))
            best, found_at = b.add("where", is_larger, found, best), b.add("where", is_larger, here, found_at)
        places = found_at
        pitch = pitch * length
    return b.expand(start if places is None else places, b.shape(pooled))


def _first_inside(b: Builder, begins: Value, step: int) -> Value:
    """Returns the first place of each window that is not in front of the input."""
    missing = b.add("max", b.add("neg", begins), b.scalar(0, dtypes.i64))
    steps = b.add("div", b.add("add", missing, b.scalar(step - 1, dtypes.i64)), b.scalar(step, dtypes.i64))
    return b.add("add", begins, b.add("mul", steps, b.scalar(step, dtypes.i64)))


def _times(b: Builder, x: Value, number: int) -> Value:
    return b.add("mul", x, b.scalar(number, dtypes.i64))


def _lowest(x: Value) -> float:
    dtype = x.known_dtype
    return -np.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)
