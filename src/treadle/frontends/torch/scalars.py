"""Python numbers read from tensors."""

from __future__ import annotations

import math

from treadle.frontends.torch.build import Builder, Number
from treadle.graph.dim import at_least, is_expression
from treadle.graph.value import Value
from treadle.ops.sizes import known_value


def item(b: Builder, x: Value) -> bool | int | float | Number:
    """Returns the only element of `x`: a Python number if it is known, else a Number known at run time."""
    known = known_value(x)
    if known is not None:
        found: bool | int | float = known.reshape(()).item()
        return found
    return Number(x if x.shape == () else b.reshape(x, []))


def truncated_quotient(x: float, y: float) -> int:
    """Returns x / y, rounded towards 0."""
    if not is_expression(x) and not is_expression(y):
        return int(x / y)
    if isinstance(x, float) or isinstance(y, float) or not (at_least(x, 0) and at_least(y, 1)):
        quotient = x / y
        return math.floor(quotient) if quotient >= 0 else -math.floor(-quotient)
    return x // y
