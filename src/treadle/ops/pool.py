"""max_pool and avg_pool: the largest or the mean element of each window."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import DtypeError
from treadle.graph.shape import StaticShape
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import need_float, operand, present, rank_at_least, result, widened
from treadle.ops.window import Window, pads_of

POOLS = ("max_pool", "avg_pool")


def window_of(attrs: Attrs, spatial: StaticShape) -> Window:
    """The window of a pooling node's attributes; `spatial` are the sizes of its input."""
    pads = pads_of(attrs, spatial, attrs["kernel"])
    return Window.of(attrs["kernel"], attrs["strides"], pads, attrs["dilations"])


def infer_max_pool(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, *S] -> [N, C, *out]. attrs: kernel, strides, pads (or one of window.SAME), dilations, ceil_mode."""
    x = operand(inputs, 0, "x")
    if not (x.dtype.is_float or x.dtype.is_integer):
        raise DtypeError(f"x must hold numbers, got {x.dtype}")
    return _pooled(attrs, x)


def infer_avg_pool(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, *S] -> [N, C, *out]. attrs: those of max_pool and count_include_pad."""
    x = operand(inputs, 0, "x")
    need_float(x, "x")
    return _pooled(attrs, x)


def _pooled(attrs: Attrs, x: Info) -> list[Info]:
    shape = rank_at_least(x, 3, "x")
    out = window_of(attrs, shape[2:]).output(shape[2:], ceil_mode=attrs["ceil_mode"])
    return [result(x.dtype, (*shape[:2], *out))]


def lowest(dtype: DType) -> float:
    """The least value of a numeric dtype: -inf for floats."""
    return -np.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _padded(x: Array, window: Window, out: tuple[int, ...], fill: float) -> Array:
    """`x` with its pads, and with what partial windows reach beyond them, all `fill`."""
    widths = [(0, 0), (0, 0)]
    for axis, size in enumerate(x.shape[2:]):
        reach = (out[axis] - 1) * window.strides[axis] + (window.kernel[axis] - 1) * window.dilations[axis] + 1
        begin = window.pads_begin[axis]
        widths.append((begin, max(window.pads_end[axis], reach - size - begin)))
    return np.pad(x, widths, constant_values=fill)


def evaluate_max_pool(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    window = window_of(attrs, x.shape[2:])
    out = window.output(x.shape[2:], ceil_mode=attrs["ceil_mode"])
    fill = lowest(dtypes.from_numpy(x.dtype))
    padded = _padded(x, window, out, fill)
    largest = np.full((*x.shape[:2], *out), fill, x.dtype)
    for tap in window.taps():
        largest = np.maximum(largest, padded[window.seen(tap, out)])
    return [largest]


def evaluate_avg_pool(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """With `count_include_pad` the divisor counts elements of the pads, but none beyond them."""
    x = present(arrays, 0)
    window = window_of(attrs, x.shape[2:])
    out = window.output(x.shape[2:], ceil_mode=attrs["ceil_mode"])
    padded = _padded(widened(x), window, out, 0)
    ones = np.ones((1, 1, *x.shape[2:]))
    if attrs["count_include_pad"]:
        ones = np.pad(ones, ((0, 0), (0, 0), *zip(window.pads_begin, window.pads_end, strict=True)), constant_values=1)
        unpadded = Window(window.kernel, window.strides, window.dilations, *((0,) * len(out),) * 2)
        counted = _padded(ones, unpadded, out, 0)
    else:
        counted = _padded(ones, window, out, 0)
    total, count = np.zeros((*x.shape[:2], *out)), np.zeros((1, 1, *out))
    with np.errstate(all="ignore"):
        for tap in window.taps():
            seen = window.seen(tap, out)
            total += padded[seen]
            count += counted[seen]
        return [(total / count).astype(x.dtype)]
