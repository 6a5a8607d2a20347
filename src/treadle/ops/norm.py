"""Normalisations: layer, batch, instance, group, RMS and local response."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import StaticShape, normalize_axis, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    absent_or,
    dims,
    must_broadcast_to,
    need_float,
    operand,
    optional,
    present,
    rank_at_least,
    result,
    same_dtype,
    widened,
)


def infer_layer_norm(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, scale and bias (each may be absent; they broadcast to x). attrs: axis, epsilon.

    Mean and variance are taken over the axes from `axis` to the last.
    """
    return _infer_trailing(attrs, inputs, ("scale", "bias"))


def infer_rms_norm(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, scale (broadcasts to x). attrs: axis, epsilon. The mean square is taken from `axis` to the last."""
    return _infer_trailing(attrs, inputs, ("scale",))


def _infer_trailing(attrs: Attrs, inputs: Sequence[Info | None], names: Sequence[str]) -> list[Info]:
    x = operand(inputs, 0, "x")
    shape = rank_at_least(x, 1, "x")
    normalize_axis(attrs["axis"], len(shape))
    for index, name in enumerate(names, start=1):
        info = optional(inputs, index)
        same_dtype(("x", x), (name, info))
        if info is not None:
            must_broadcast_to(dims(info), shape, name)
    return [result(need_float(x, "x"), shape)]


def _trailing(attrs: Attrs, x: Array) -> tuple[int, ...]:
    return tuple(range(normalize_axis(attrs["axis"], x.ndim), x.ndim))


def evaluate_layer_norm(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias."""
    x, scale, bias = present(arrays, 0), absent_or(arrays, 1), absent_or(arrays, 2)
    with np.errstate(all="ignore"):
        scaled = _standardised(widened(x), _trailing(attrs, x), attrs["epsilon"])
        scaled = scaled if scale is None else scaled * widened(scale)
        return [(scaled if bias is None else scaled + widened(bias)).astype(x.dtype)]


def evaluate_rms_norm(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """x / sqrt(mean(x * x) + epsilon) * scale."""
    x, scale = present(arrays, 0), absent_or(arrays, 1)
    wide = widened(x)
    with np.errstate(all="ignore"):
        scaled = wide / np.sqrt(_mean(wide * wide, _trailing(attrs, x)) + attrs["epsilon"])
        return [(scaled if scale is None else scaled * widened(scale)).astype(x.dtype)]


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.float64)
    return np.asarray(np.sum(x, axis=axes, keepdims=True) / count)


def _standardised(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - _mean(x, axes)
    return np.asarray(centred / np.sqrt(_mean(centred * centred, axes) + epsilon))


def _infer_channelwise(inputs: Sequence[Info | None], names: Sequence[str]) -> StaticShape:
    """The shape of x [N, C, ...]. Raises ShapeError unless each of `names` is [C] in x's dtype."""
    x = operand(inputs, 0, "x")
    need_float(x, "x")
    shape = rank_at_least(x, 2, "x")
    for index, name in enumerate(names, start=1):
        info = operand(inputs, index, name)
        same_dtype(("x", x), (name, info))
        if dims(info) != (shape[1],):
            raise ShapeError(f"{name} must be [{shape[1]}], one number a channel of x, got {text(dims(info))}")
    return shape


def infer_batch_norm(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, ...]; scale, bias, mean, var [C]. attrs: epsilon. Inference only: statistics are given."""
    shape = _infer_channelwise(inputs, ("scale", "bias", "mean", "var"))
    return [result(operand(inputs, 0, "x").dtype, shape)]


def infer_instance_norm(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, *S]; scale, bias [C]. attrs: epsilon. Statistics over S, for each sample and channel."""
    shape = _infer_channelwise(inputs, ("scale", "bias"))
    return [result(operand(inputs, 0, "x").dtype, shape)]


def infer_group_norm(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, *S]; scale, bias [C]. attrs: groups, epsilon. Statistics over the channels of a group and S."""
    shape = _infer_channelwise(inputs, ("scale", "bias"))
    if attrs["groups"] < 1 or shape[1] % attrs["groups"]:
        raise ShapeError(f"x has {shape[1]} channels, which {attrs['groups']} groups do not divide")
    return [result(operand(inputs, 0, "x").dtype, shape)]


def _per_channel(array: Array, rank: int) -> Array:
    return widened(array).reshape(-1, *(1,) * (rank - 2))


def evaluate_batch_norm(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """(x - mean) / sqrt(var + epsilon) * scale + bias."""
    x = present(arrays, 0)
    scale, bias, mean, var = (_per_channel(present(arrays, index), x.ndim) for index in range(1, 5))
    with np.errstate(all="ignore"):
        return [((widened(x) - mean) / np.sqrt(var + attrs["epsilon"]) * scale + bias).astype(x.dtype)]


def evaluate_instance_norm(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return _evaluate_grouped(present(arrays, 0).shape[1], attrs["epsilon"], arrays)


def evaluate_group_norm(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return _evaluate_grouped(attrs["groups"], attrs["epsilon"], arrays)


def _evaluate_grouped(groups: int, epsilon: float, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    scale, bias = (_per_channel(present(arrays, index), x.ndim) for index in (1, 2))
    if x.size == 0:
        return [x]
    grouped = widened(x).reshape(x.shape[0], groups, -1)
    with np.errstate(all="ignore"):
        scaled = _standardised(grouped, (2,), epsilon).reshape(x.shape)
        return [(scaled * scale + bias).astype(x.dtype)]


def infer_lrn(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [N, C, ...]. attrs: size, alpha, beta, bias."""
    x = operand(inputs, 0, "x")
    if attrs["size"] < 1:
        raise ShapeError(f"size must be 1 or more, got {attrs['size']}")
    return [result(need_float(x, "x"), rank_at_least(x, 2, "x"))]


def evaluate_lrn(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """x / (bias + alpha / size * sum of squares of `size` channels around each) ** beta."""
    x = present(arrays, 0)
    size, channels = attrs["size"], x.shape[1]
    squares = widened(x) ** 2
    total = np.zeros_like(squares)
    for channel in range(channels):
        first = max(0, channel - (size - 1) // 2)
        last = min(channels - 1, channel + size // 2)
        total[:, channel] = np.sum(squares[:, first : last + 1], axis=1)
    with np.errstate(all="ignore"):
        return [(widened(x) / (attrs["bias"] + attrs["alpha"] / size * total) ** attrs["beta"]).astype(x.dtype)]
