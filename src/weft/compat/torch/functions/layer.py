"""Convolution, pooling, normalisation, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.compat.torch import dtypes
from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.functions.activation import softmax
from weft.compat.torch.functions.arithmetic import add, mul, scalar, where
from weft.compat.torch.functions.matmul import matmul
from weft.compat.torch.functions.shape import ints, reshape, transpose
from weft.compat.torch.recording import emit
from weft.compat.torch.tensor import Tensor

Sizes = int | Sequence[int]


def each_axis(given: Sizes, rank: int) -> tuple[int, ...]:
    """One number for every spatial axis."""
    if isinstance(given, int):
        return (given,) * rank
    found = tuple(int(size) for size in given)
    return found * rank if len(found) == 1 else found


def _conv(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        batched = input.ndim == rank + 2
        x = input if batched else reshape(input, (1, *input.shape))
        spread = each_axis(dilation, rank)
        begin, end = _pads(padding, weight.shape[2:], spread, rank)
        result = emit(
            "conv", x, weight, bias,
            strides=each_axis(stride, rank), pads=(*begin, *end), dilations=spread, groups=groups,
        )  # fmt: skip
        return result if batched else reshape(result, result.shape[1:])

    function.__name__ = f"conv{rank}d"
    return tensor_function(function)


def _pads(
    padding: Sizes | str, kernel: Sequence[int], spread: Sequence[int], rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if padding == "valid":
        padding = 0
    if isinstance(padding, str):
        if padding != "same":
            raise RuntimeError(f"Invalid padding string: {padding!r}; wanted 'same' or 'valid'")
        total = [step * (size - 1) for step, size in zip(spread, kernel, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    both = each_axis(padding, rank)
    return both, both


conv1d, conv2d, conv3d = (_conv(rank) for rank in (1, 2, 3))


@tensor_function
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed convolution of input [N, C, H, W] with weight [C, M / groups, *K]."""
    pads = each_axis(padding, 2)
    return emit(
        "conv_transpose", input, weight, bias,
        strides=each_axis(stride, 2), pads=(*pads, *pads), dilations=each_axis(dilation, 2), groups=groups,
        output_padding=each_axis(output_padding, 2),
    )  # fmt: skip


def _pooling(rank: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def max_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        return _pool("max_pool", rank, input, kernel_size, stride, padding, dilation, ceil_mode)

    def avg_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        pad = {"count_include_pad": count_include_pad}
        return _pool("avg_pool", rank, input, kernel_size, stride, padding, 1, ceil_mode, **pad)

    max_pool.__name__, avg_pool.__name__ = f"max_pool{rank}d", f"avg_pool{rank}d"
    return tensor_function(max_pool), tensor_function(avg_pool)


def _pool(
    op: str,
    rank: int,
    x: Tensor,
    kernel: Sizes,
    stride: Any,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    **more: Any,
) -> Tensor:
    pads = each_axis(padding, rank)
    batched = x.ndim == rank + 2
    result = emit(
        op, x if batched else reshape(x, (1, *x.shape)),
        kernel=each_axis(kernel, rank), strides=each_axis(stride or kernel, rank), pads=(*pads, *pads),
        dilations=each_axis(dilation, rank), ceil_mode=ceil_mode, **more,
    )  # fmt: skip
    return result if batched else reshape(result, result.shape[1:])


(max_pool1d, avg_pool1d), (max_pool2d, avg_pool2d) = _pooling(1), _pooling(2)


@tensor_function
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over the last axes, which must be `normalized_shape`; then times weight plus bias."""
    shape = tuple(normalized_shape)
    if tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size{list(input.shape)}"
        )
    return emit("layer_norm", input, weight, bias, axis=input.ndim - len(shape), epsilon=eps)


@tensor_function
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divided by the root of the mean square over the last axes, times weight."""
    small = float(np.finfo(input.dtype.numpy).eps) if eps is None else eps
    return emit("rms_norm", input, weight, axis=input.ndim - len(tuple(normalized_shape)), epsilon=small)


def _ones_and_zeros(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Any, Any]:
    channels = x.shape[1]
    ones, zeros = np.ones(channels, x.dtype.numpy), np.zeros(channels, x.dtype.numpy)
    return ones if weight is None else weight, zeros if bias is None else bias


@tensor_function
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(input - mean) / sqrt(var + eps) * weight + bias for each channel, with the statistics that are given."""
    if training or running_mean is None or running_var is None:
        raise NotImplementedError("batch_norm with statistics of the batch: weft runs inference; call module.eval()")
    return emit("batch_norm", input, *_ones_and_zeros(input, weight, bias), running_mean, running_var, epsilon=eps)


@tensor_function
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over each group of channels; then times weight plus bias."""
    return emit("group_norm", input, *_ones_and_zeros(input, weight, bias), groups=num_groups, epsilon=eps)


@tensor_function
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added around the last axes; `pad` is (begin, end) of the last axis, then of the one before, ..."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in modes:
        raise NotImplementedError(f"pad mode {mode!r}: wanted one of {', '.join(modes)}")
    begins, ends = list(pad[0::2]), list(pad[1::2])
    axes = [input.ndim - 1 - index for index in range(len(begins))]
    fill = scalar(input, value or 0)
    return emit("pad", input, ints([*begins, *ends]), fill, ints(axes), mode=modes[mode])


@tensor_function
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """The input itself; what training would drop needs training=False here."""
    if training and p:
        raise NotImplementedError("dropout while training: weft runs inference; call module.eval() or training=False")
    return input


@tensor_function
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the norm along `dim`, which counts as `eps` at least."""
    from weft.compat.torch.functions.arithmetic import clamp, div
    from weft.compat.torch.functions.reduction import norm

    return div(input, clamp(norm(input, p, dim, keepdim=True), eps))


@tensor_function
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Tensor:
    """softmax(query key^T scale + mask) value; `scale` is 1 / sqrt(width) unless given."""
    if dropout_p:
        raise NotImplementedError("attention with dropout: weft runs inference; pass dropout_p=0.0")
    scores = mul(matmul(query, transpose(key, -2, -1)), scale or 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        attn_mask = Tensor(np.tri(query.shape[-2], key.shape[-2], dtype=bool))
    if attn_mask is not None:
        blocked = float("-inf")
        masked = attn_mask.dtype is dtypes.bool_
        scores = where(attn_mask, scores, blocked) if masked else add(scores, attn_mask)
    return matmul(softmax(scores, -1), value)
