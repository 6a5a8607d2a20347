"""Convolution and pooling in TensorFlow's layouts: channels last unless data_format says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.frontends.tensorflow.emitter import Emitter, integer
from treadle.frontends.tensorflow.rules.kinds import Same, Value
from treadle.graph.dim import ceil_div, maximum
from treadle.graph.shape import StaticShape

Padding = str | Sequence[Sequence[int]]

DATA_FORMATS = ("NWC", "NHWC", "NDHWC", "NCW", "NCHW", "NCDHW")
"""The values of data_format."""


class Layout:
    """The layout of tensors of one rank, and its conversion to and from the layout of core ops, channels first."""

    def __init__(self, rank: int, data_format: str | None) -> None:
        """Raises ValueError for ranks without spatial axes and for unknown layouts."""
        if not 3 <= rank <= 5:
            raise ValueError(f"wanted a tensor of rank 3 to 5: batch, spatial axes and channels; got rank {rank}")
        if data_format not in (None, *DATA_FORMATS):
            raise ValueError(f"data_format: wanted one of {', '.join(DATA_FORMATS)}, got {data_format!r}")
        self.rank = rank
        self.last = data_format is None or not data_format.startswith("NC")

    def enter(self, e: Emitter, x: Value) -> Value:
        """Return `x` as [N, C, *S]."""
        return e.transpose(x, (0, self.rank - 1, *range(1, self.rank - 1))) if self.last else x

    def leave(self, e: Emitter, x: Value) -> Value:
        """Return `x` [N, C, *S] in TensorFlow's layout."""
        return e.transpose(x, (0, *range(2, self.rank), 1)) if self.last else x

    def spatial(self, what: str, numbers: Any) -> tuple[int, ...]:
        """Return one number for each spatial axis, from one number, one for each of them, or one for each axis.

        Raises ValueError for other lengths, numbers below 1, and other numbers than 1 for the batch or the channels.
        """
        count = self.rank - 2
        found = [1] if numbers is None else [numbers] if isinstance(numbers, int) else [int(n) for n in numbers]
        if len(found) == self.rank:
            batch, channels = found[0], found[-1 if self.last else 1]
            if (batch, channels) != (1, 1):
                raise ValueError(f"{what}: wanted 1 for the batch and the channels, got {numbers!r}")
            found = found[1:-1] if self.last else found[2:]
        if len(found) == 1:
            found *= count
        if len(found) != count:
            raise ValueError(
                f"{what}: wanted 1, {count} or {self.rank} numbers for {count} spatial axes, got {numbers!r}"
            )
        if min(found) < 1:
            raise ValueError(f"{what}: wanted numbers of at least 1, got {numbers!r}")
        return tuple(found)

    def pads(
        self, padding: Padding, sizes: StaticShape, window: Sequence[int], strides: Sequence[int], rates: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the padding before, then after, each spatial axis of `sizes`. Raises ValueError."""
        if not isinstance(padding, str):
            pairs = [tuple(pair) for pair in padding]
            if len(pairs) != self.rank or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
                raise ValueError(f"padding: wanted {self.rank} pairs of numbers of at least 0, got {padding!r}")
            if any(pairs[0]) or any(pairs[-1 if self.last else 1]):
                raise ValueError(f"padding: wanted none for the batch and the channels, got {padding!r}")
            pairs = pairs[1:-1] if self.last else pairs[2:]
            return (*(begin for begin, _ in pairs), *(end for _, end in pairs))
        if padding.upper() == "VALID":
            return (0,) * (2 * len(sizes))
        if padding.upper() != "SAME":
            raise ValueError(f"padding: wanted 'SAME', 'VALID' or a list of pairs, got {padding!r}")
        total = [
            maximum(0, (ceil_div(size, stride) - 1) * stride + (kernel - 1) * rate + 1 - size)
            for size, kernel, stride, rate in zip(sizes, window, strides, rates, strict=True)
        ]
        return (*(pad // 2 for pad in total), *(pad - pad // 2 for pad in total))


def conv(
    e: Emitter,
    input: Same,
    filters: Same,
    strides: Any = None,
    padding: Padding = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
) -> Value:
    """Convolve input [N, *S, C] with filters [*K, C / groups, M], giving [N, *out, M]."""
    if filters.shape is not None:
        e.expect_rank(input, e.rank(filters))
    rank = e.rank(input)
    layout = Layout(rank, data_format)
    x = layout.enter(e, input)
    e.expect_rank(filters, rank)
    window = _window(e, filters, rank)
    steps, rates = layout.spatial("strides", strides), layout.spatial("dilations", dilations)
    pads = layout.pads(padding, e.shape(x)[2:], window[:-2], steps, rates)
    weights = e.transpose(filters, (rank - 1, rank - 2, *range(rank - 2)))
    groups = max(1, e.shape(x)[1] // window[-2])
    found = e.add("conv", x, weights, None, strides=steps, pads=pads, dilations=rates, groups=groups)
    return layout.leave(e, found)


def _window(e: Emitter, filters: Value, rank: int) -> StaticShape:
    """Return the shape of `filters`. Raises ValueError for another rank than `rank`, or no channels."""
    found = e.shape(filters)
    if len(found) != rank:
        raise ValueError(f"filters: wanted rank {rank}, got shape {list(found)}")
    if 0 in found[:-1]:
        raise ValueError(f"filters: wanted a window and channels of at least 1, got shape {list(found)}")
    return found


def depthwise_conv2d(
    e: Emitter,
    input: Same,
    filter: Same,
    strides: Any,
    padding: Padding,
    data_format: str | None = None,
    dilations: Any = None,
) -> Value:
    """Convolve each channel of input [N, H, W, C] with its filters [h, w, C, m], giving [N, H', W', C * m]."""
    layout = Layout(4, data_format)
    e.expect_rank(filter, 4)
    e.expect_rank(input, 4)
    x = layout.enter(e, input)
    height, width, channels, multiplier = _window(e, filter, 4)
    steps, rates = layout.spatial("strides", strides), layout.spatial("dilations", dilations)
    pads = layout.pads(padding, e.shape(x)[2:], (height, width), steps, rates)
    weights = e.reshape(e.transpose(filter, (2, 3, 0, 1)), (channels * multiplier, 1, height, width))
    found = e.add("conv", x, weights, None, strides=steps, pads=pads, dilations=rates, groups=channels)
    return layout.leave(e, found)


def conv2d_transpose(
    e: Emitter,
    input: Same,
    filters: Same,
    output_shape: Sequence[int],
    strides: Any,
    padding: Padding = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
) -> Value:
    """Return the gradient of conv by its input: [N, H, W, C] and filters [h, w, M, C] to [N, H', W', M]."""
    layout = Layout(4, data_format)
    e.expect_rank(filters, 4)
    e.expect_rank(input, 4)
    x = layout.enter(e, input)
    window = _window(e, filters, 4)[:2]
    if len(output_shape) != 4:
        raise ValueError(f"output_shape: wanted 4 numbers, got {list(output_shape)}")
    steps, rates = layout.spatial("strides", strides), layout.spatial("dilations", dilations)
    wanted = [integer(size) for size in (output_shape[1:3] if layout.last else output_shape[2:4])]
    pads = layout.pads(padding, tuple(wanted), window, steps, rates)
    extra = [
        size - (step * (length - 1) + (kernel - 1) * rate + 1 - pads[axis] - pads[axis + 2])
        for axis, (size, step, length, kernel, rate) in enumerate(
            zip(wanted, steps, e.shape(x)[2:], window, rates, strict=True)
        )
    ]
    weights = e.transpose(filters, (3, 2, 0, 1))
    window_arguments: dict[str, Any] = {
        "strides": steps,
        "pads": pads,
        "dilations": rates,
        "groups": 1,
        "output_padding": extra,
    }
    return layout.leave(e, e.add("conv_transpose", x, weights, None, **window_arguments))


def max_pool(
    e: Emitter,
    input: Same,
    ksize: Any,
    strides: Any,
    padding: Padding,
    data_format: str | None = None,
) -> Value:
    """Return the largest element of each window, over the channels if ksize is 1 for all other axes."""
    depth = _channel_window(e, input, ksize, strides, data_format)
    if depth > 1:
        *rest, channels = e.shape(input)
        parts = e.reshape(input, (*rest, channels // depth, depth))
        return e.add("reduce_max", parts, axes=(4,), keepdims=False)
    return _pool(e, "max_pool", input, (ksize, strides, padding, data_format))


def _channel_window(e: Emitter, input: Value, ksize: Any, strides: Any, data_format: str | None) -> int:
    """Return the number of channels of a window over channels only that divides them; 1 for other windows."""
    if isinstance(ksize, int) or isinstance(strides, int) or data_format not in (None, "NHWC") or e.rank(input) != 4:
        return 1
    window, steps = list(map(int, ksize)), list(map(int, strides))
    alone = len(window) == 4 and window == steps and window[:3] == [1, 1, 1] and window[3] > 0
    return window[3] if alone and not e.shape(input)[3] % window[3] else 1


def avg_pool(
    e: Emitter,
    input: Same,
    ksize: Any,
    strides: Any,
    padding: Padding,
    data_format: str | None = None,
) -> Value:
    """Return the mean of each window, without padding."""
    return _pool(e, "avg_pool", input, (ksize, strides, padding, data_format), count_include_pad=False)


def _pool(
    e: Emitter, op: str, value: Value, window_arguments: tuple[Any, Any, Padding, str | None], **attrs: Any
) -> Value:
    ksize, strides, padding, data_format = window_arguments
    layout = Layout(e.rank(value), data_format)
    x = layout.enter(e, value)
    kernel, steps = layout.spatial("ksize", ksize), layout.spatial("strides", strides)
    rates = (1,) * len(kernel)
    pads = layout.pads(padding, e.shape(x)[2:], kernel, steps, rates)
    found = e.add(op, x, kernel=kernel, strides=steps, pads=pads, dilations=rates, ceil_mode=False, **attrs)
    return layout.leave(e, found)


def separable_conv2d(
    e: Emitter,
    input: Same,
    depthwise_filter: Same,
    pointwise_filter: Same,
    strides: Any = None,
    padding: Padding = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
) -> Value:
    """Apply a depthwise convolution, then a convolution of 1 x 1."""
    inner = depthwise_conv2d(e, input, depthwise_filter, strides, padding, data_format, dilations)
    return conv(e, inner, pointwise_filter, 1, "VALID", data_format)
