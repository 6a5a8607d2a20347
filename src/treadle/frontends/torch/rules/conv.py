"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

from treadle.frontends.faults import Fault
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.rule import Rule, Sizes, batched_like, per_axis, with_batch
from treadle.graph.value import Value


def _pads(padding: Sizes | str, kernel: Sequence[int], spread: Sequence[int]) -> tuple[int, ...]:
    """Returns begins, then ends; "same" puts the odd one at the end."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise Fault(f"padding must be numbers, 'same' or 'valid', got {padding!r}")
        total = [step * (size - 1) if padding == "same" else 0 for step, size in zip(spread, kernel, strict=True)]
        return (*(t // 2 for t in total), *(t - t // 2 for t in total))
    return per_axis(padding, len(kernel)) * 2


def require_unit_strides(padding: Sizes | str, strides: Sequence[int]) -> None:
    """Raises Fault if padding is to keep sizes and a stride is not 1."""
    if padding == "same" and any(stride != 1 for stride in strides):
        raise Fault("padding='same' is not supported for strided convolutions")


def conv(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Value:
    """Returns the convolution (1-d, 2-d or 3-d) of input [N, C, *S] or [C, *S]."""
    kernel = b.shape(weight)[2:]
    rank = len(kernel)
    spread, strides = per_axis(dilation, rank), per_axis(stride, rank)
    require_unit_strides(padding, strides)
    result = b.add(
        "conv",
        with_batch(b, input, rank),
        weight,
        bias,
        strides=strides,
        pads=_pads(padding, kernel, spread),
        dilations=spread,
        groups=groups,
    )
    return batched_like(b, result, input)


def conv_transpose(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Value:
    """Returns the transposed convolution; weight is [C, M / groups, *K]."""
    rank = b.rank(weight) - 2
    strides, spread, more = (per_axis(given, rank) for given in (stride, dilation, output_padding))
    for extra, step, gap in zip(more, strides, spread, strict=True):
        if not 0 <= extra < max(step, gap):
            raise Fault(
                f"output padding must be smaller than either stride or dilation, and not negative; got {extra} with "
                f"stride {step} and dilation {gap}"
            )
    result = b.add(
        "conv_transpose",
        with_batch(b, input, rank),
        weight,
        bias,
        strides=strides,
        pads=per_axis(padding, rank) * 2,
        dilations=spread,
        groups=groups,
        output_padding=more,
    )
    return batched_like(b, result, input)


def of_rank(rank: int, rule: Rule) -> Rule:
    """Returns `rule`, restricted to weights with `rank` spatial axes."""

    @wraps(rule)
    def checked(b: Builder, input: Value, weight: Value, *args: Any, **kwargs: Any) -> Any:
        if b.rank(weight) != rank + 2:
            raise Fault(f"its weight must have {rank + 2} axes, {rank} of them spatial, got {list(b.shape(weight))}")
        return rule(b, input, weight, *args, **kwargs)

    return checked


def convolution(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    *_: object,
) -> Value:
    """Returns the one op that all convolutions decompose to."""
    if transposed:
        return conv_transpose(b, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(b, x, weight, bias, stride, padding, dilation, groups)
