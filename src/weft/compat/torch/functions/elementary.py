"""Elementary functions of single elements."""

from __future__ import annotations

import math

from weft.compat.torch import dtypes
from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.functions.arithmetic import (
    abs_,
    add,
    eq,
    gt,
    isnan,
    mul,
    sub,
    trunc,
    unary,
    where,
)
from weft.compat.torch.functions.rule import of_op
from weft.compat.torch.tensor import Tensor

exp, log, expm1, log1p = unary("exp"), unary("log"), unary("expm1"), unary("log1p")
sin, cos, tan, asin, acos, atan = (unary(op) for op in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = (unary(op) for op in ("sinh", "cosh", "asinh", "acosh", "atanh"))
erf, erfc = unary("erf"), unary("erfc")
_softplus = unary("softplus")
atan2, hypot = (of_op(op, lambda input, other: (input, other)) for op in ("atan2", "hypot"))
exp2, log10 = (of_op(op, lambda input: (input,)) for op in ("exp2", "log10"))


@tensor_function
def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return mul(log(input), 1 / math.log(2))


@tensor_function
def frac(input: Tensor) -> Tensor:
    """What follows the point."""
    return sub(input, trunc(input))


@tensor_function
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
    high = where(gt(input, other), input, other)
    distance = where(eq(input, other), 0, abs_(sub(input, other)))
    return add(high, _softplus(sub(0, distance)))


@tensor_function
def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """With numbers in place of NaN and the infinities: the largest ones unless others are given."""
    if not input.dtype.is_floating_point:
        return input
    limits = dtypes.finfo(input.dtype)
    found = where(isnan(input), nan, input)
    found = where(eq(found, math.inf), limits.max if posinf is None else posinf, found)
    return where(eq(found, -math.inf), limits.min if neginf is None else neginf, found)
