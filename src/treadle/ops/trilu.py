"""trilu: the upper or lower triangle of each matrix, 0 elsewhere."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.shape import elements, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, need_integer, operand, optional, present, rank_at_least, result


def infer_trilu(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [..., N, M], k (absent: 0; the diagonal that bounds the triangle). attrs: upper."""
    x, k = operand(inputs, 0, "x"), optional(inputs, 1)
    if k is not None:
        need_integer(k, "k")
        if elements(dims(k)) != 1:
            raise ShapeError(f"k must be one number, got shape {text(dims(k))}")
    return [result(x.dtype, rank_at_least(x, 2, "x"))]


def evaluate_trilu(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, k = present(arrays, 0), absent_or(arrays, 1)
    diagonal = 0 if k is None else int(k.reshape(()))
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    keep = columns - rows >= diagonal if attrs["upper"] else columns - rows <= diagonal
    return [np.where(keep, x, np.zeros((), x.dtype))]
