"""Elementary functions, elementwise."""

from __future__ import annotations

import math

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import abs_, add, eq, gt, isnan, mul, sub, trunc, unary, where
from treadle.compat.torch.functions.promotion import cast, common_type, require_floats
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.tensor import Tensor

exp, log, expm1, log1p = unary("exp"), unary("log"), unary("expm1"), unary("log1p")
sin, cos, tan, asin, acos, atan = (unary(op) for op in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = (unary(op) for op in ("sinh", "cosh", "asinh", "acosh", "atanh"))
erf, erfc = unary("erf"), unary("erfc")
_softplus = unary("softplus")
atan2 = of_op("atan2", lambda input, other: (input, other))
exp2, log10 = (of_op(op, lambda input: (input,)) for op in ("exp2", "log10"))


def _sides(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    require_floats("hypot_cpu", common_type(input, other))
    return input, other


hypot = of_op("hypot", _sides)


@tensor_function
def log2(input: Tensor) -> Tensor:
    """Returns the logarithm to base 2."""
    return mul(log(input), 1 / math.log(2))


@tensor_function
def frac(input: Tensor) -> Tensor:
    """Returns the fractional part. Raises NotImplementedError for integers."""
    require_floats("frac_cpu", input.dtype)
    return sub(input, trunc(input))


@tensor_function
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """Returns log(exp(input) + exp(other)) without overflow."""
    to = common_type(input, other)
    require_floats("logaddexp_cpu", to)
    one, two = cast(input, to), cast(other, to)
    high = where(gt(one, two), one, two)
    distance = where(eq(one, two), 0, abs_(sub(one, two)))
    return add(high, _softplus(sub(0, distance)))


@tensor_function
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replaces NaN by 0 and infinities by the largest finite numbers, or by the numbers given."""
    if not input.dtype.is_floating_point:
        return input
    limits = dtypes.finfo(input.dtype)
    found = where(isnan(input), 0.0 if nan is None else nan, input)
    found = where(eq(found, math.inf), limits.max if posinf is None else posinf, found)
    return where(eq(found, -math.inf), limits.min if neginf is None else neginf, found)
