"""non_zero: where the elements are that are not 0."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import operand, present


def infer_non_zero(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """i64 [rank of x, number of elements found]: a shape that depends on data."""
    operand(inputs, 0, "x")
    return [Info(dtypes.i64, None)]


def evaluate_non_zero(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    if x.ndim == 0:
        return [np.zeros((0, int(bool(x))), np.int64)]
    return [np.array(np.nonzero(x), np.int64)]
