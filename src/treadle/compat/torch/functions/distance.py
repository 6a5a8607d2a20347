"""Distances and similarities of vectors."""

from __future__ import annotations

import math

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import abs_, clamp, div, mul, pow_, sqrt, sub
from treadle.compat.torch.functions.reduction import amax, sum_
from treadle.compat.torch.functions.shape import unsqueeze
from treadle.compat.torch.tensor import Tensor


@tensor_function
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """Returns the distances of the rows of x1 [..., n, d] and x2 [..., m, d]."""
    difference = abs_(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)))
    if p == 2:
        return sqrt(sum_(mul(difference, difference), -1))
    return (
        sum_(difference, -1)
        if p == 1
        else amax(difference, -1)
        if p == math.inf
        else pow_(sum_(pow_(difference, p), -1), 1 / p)
    )


@tensor_function
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Returns the cosine of the angle between vectors along `dim`."""
    sizes_ = [clamp(sqrt(sum_(mul(x, x), dim, True)), eps) for x in (x1, x2)]
    return sum_(mul(div(x1, sizes_[0]), div(x2, sizes_[1])), dim)
