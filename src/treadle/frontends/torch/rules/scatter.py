"""Scatter: a copy of a tensor with elements written, or reduced, at positions that an index names."""

from __future__ import annotations

import math

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.rule import Operand, Rule, value_of
from treadle.graph.value import Value

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def scatter(reduction: str) -> Rule:
    """Returns the rule of scatter (of a tensor or a number) and scatter_add."""

    def rule(b: Builder, x: Value, dim: int, index: Value, src: Operand) -> Value:
        shape = b.shape(index)
        wide = value_of(b, src, x.known_dtype)
        if isinstance(src, Value) and b.rank(src):
            for axis, size in enumerate(shape):
                wide = b.slice(wide, axis, 0, size)
        else:
            wide = b.expand(wide, shape)
        return b.add("scatter_elements", x, index, wide, axis=b.axis(x, dim), reduction=reduction)

    return rule


def scatter_reduce(
    b: Builder, x: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    """Returns x with the entries of `src` reduced at the positions of `index`, including x's own entries or not."""
    if reduce not in _REDUCTIONS:
        raise Fault(f"reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}")
    dtype, axis = x.known_dtype, b.axis(x, dim)
    if not dtype.is_float:
        raise Unsupported(f"scatter_reduce of {dtype}; cast it to float32")
    for at, size in enumerate(b.shape(index)):
        src = b.slice(src, at, 0, size)
    start = x
    if not include_self:
        neutral = {"prod": 1.0, "amax": -math.inf, "amin": math.inf}.get(reduce, 0.0)
        first = b.full(neutral, dtype, b.shape(index))
        start = b.add("scatter_elements", x, index, first, axis=axis, reduction="none")
    found = b.add("scatter_elements", start, index, src, axis=axis, reduction=_REDUCTIONS[reduce])
    if reduce != "mean":
        return found
    ones = b.full(1, dtype, b.shape(index))
    members = b.full(1 if include_self else 0, dtype, b.shape(x))
    members = b.add("scatter_elements", members, index, ones, axis=axis, reduction="add")
    return b.add("div", found, b.add("max", members, b.scalar(1, dtype)))
