"""non_zero: where the elements are that are not 0."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.graph.shape import elements
from treadle.ops.counted import with_room
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, result


def infer_non_zero(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x -> found (i64 [rank of x, elements of x]), how many are found (i64 [1]): `counted` along axis 1 takes both."""
    shape = dims(operand(inputs, 0, "x"))
    return [result(dtypes.i64, (len(shape), elements(shape))), result(dtypes.i64, (1,))]


def evaluate_non_zero(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    found = np.zeros((0, int(bool(x))), np.int64) if x.ndim == 0 else np.array(np.nonzero(x), np.int64)
    return with_room(found, 1, x.size)
