"""cumsum, cumprod, cummax, cummin, logcumsumexp: sums, products and extremes of all elements so far along an axis."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dtypes import DType, from_numpy
from treadle.errors import DtypeError
from treadle.graph.shape import normalize_axis
from treadle.ops.op import Array, Attrs, Evaluate, Info
from treadle.ops.operands import dims, operand, present, result, widened
from treadle.ops.reduce import extreme

_ACCUMULATE: dict[str, Callable[..., Any]] = {
    "cumsum": np.add.accumulate,
    "cumprod": np.multiply.accumulate,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
}

CUMULATIVE = tuple(_ACCUMULATE)
"""The ops of this module."""


def of_nothing(op: str, dtype: DType) -> float | int | bool:
    """What `op` gives for no elements."""
    if op in ("cummax", "cummin"):
        return extreme(dtype, least=op == "cummax")
    return {"cumsum": 0, "cumprod": 1, "logcumsumexp": -np.inf}[op]


def infer_cumulative(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axis, exclusive (an element is not part of its own result), reverse (results run backwards)."""
    x = operand(inputs, 0, "x")
    if not (x.dtype.is_float or x.dtype.is_integer):
        raise DtypeError(f"x must hold numbers, got {x.dtype}")
    normalize_axis(attrs["axis"], len(dims(x)))
    return [result(x.dtype, dims(x))]


def infer_logcumsumexp(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: as infer_cumulative()."""
    x = operand(inputs, 0, "x")
    if not x.dtype.is_float:
        raise DtypeError(f"x must hold floats, got {x.dtype}")
    return infer_cumulative(attrs, inputs, n_outputs)


def evaluate_cumulative(op: str) -> Evaluate:
    """The NumPy reference of `op`: floats are accumulated in float64."""

    def evaluate(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
        x = present(arrays, 0)
        axis = normalize_axis(attrs["axis"], x.ndim)
        along = np.flip(x, axis) if attrs["reverse"] else x
        with np.errstate(all="ignore"):
            wide = widened(along)
            found = _ACCUMULATE[op](wide, axis=axis, dtype=wide.dtype)
            if attrs["exclusive"] and x.shape[axis]:
                kept = np.take(found, range(x.shape[axis] - 1), axis=axis)
                first = np.full_like(np.take(found, [0], axis=axis), of_nothing(op, from_numpy(x.dtype)))
                found = np.concatenate([first, kept], axis=axis)
            found = np.flip(found, axis) if attrs["reverse"] else found
            return [np.ascontiguousarray(found).astype(x.dtype)]

    return evaluate
