"""Python numbers read from tensors."""

from __future__ import annotations

import math

from treadle.frontends.torch.build import Builder, Number
from treadle.graph.dim import at_least, is_expression
from treadle.graph.value import Value
from treadle.ops.sizes import known_value


def item(b: Builder, x: Value) -> bool | int | float | Number:
    """Returns the only element of `x`: a Python number if it is known, else a Number known at run time."""
    known = scalar(x)
    if not isinstance(known, Number) or x.shape == ():
        return known
    return Number(b.reshape(x, []))


def scalar(x: Value) -> bool | int | float | Number:
    """Returns the only element of `x`, a Number if it is not known; `x` is then of rank 0."""
    known = known_value(x)
    if known is None:
        return Number(x)
    found: bool | int | float = known.reshape(()).item()
    return found


def truncated_quotient(x: float, y: float) -> int:
    """Returns x / y, rounded towards 0."""
    if not is_expression(x) and not is_expression(y):
        return int(x / y)
    if isinstance(x, float) or isinstance(y, float) or not (at_least(x, 0) and at_least(y, 1)):
        quotient = x / y
        return math.floor(quotient) if quotient >= 0 else -math.floor(-quotient)
    return x // y
