"""search_sorted: where values belong in sequences in ascending order."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError, ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, rank_at_least, result


def infer_search_sorted(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """sequence [..., n], values [..., m], or sequence [n] and values of any shape -> i64 of the shape of the values.

    attrs: right (a value goes behind equal elements, else in front of them).
    """
    sequence, values = operand(inputs, 0, "sequence"), operand(inputs, 1, "values")
    outer = rank_at_least(sequence, 1, "sequence")[:-1]
    shape = dims(values)
    if sequence.dtype != values.dtype:
        raise DtypeError(f"sequence and values must have one dtype, got {sequence.dtype} and {values.dtype}")
    if not (values.dtype.is_float or values.dtype.is_integer):
        raise DtypeError(f"values must hold numbers, got {values.dtype}")
    if outer and outer != shape[:-1]:
        raise ShapeError(
            f"values must have the sizes {text(outer)} of the sequence in front of the last one, got {text(shape)}"
        )
    return [result(dtypes.i64, shape)]


def evaluate_search_sorted(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Halves the range until it is empty, so a sequence that is in no order has a result, too."""
    sequence, values = present(arrays, 0), present(arrays, 1)
    size = sequence.shape[-1]
    low, count = np.zeros(values.shape, np.int64), np.full(values.shape, size, np.int64)
    while count.any():
        half = count // 2
        middle = np.minimum(low + half, size - 1)
        found = sequence[middle] if sequence.ndim == 1 else np.take_along_axis(sequence, middle, -1)
        behind = ~(found > values) if attrs["right"] else ~(found >= values)
        behind &= count > 0
        low = np.where(behind, low + half + 1, low)
        count = np.where(behind, count - half - 1, half)
    return [low]
