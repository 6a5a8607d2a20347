"""argmax and argmin: where the largest or smallest element along an axis is."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError, ShapeError
from treadle.graph.shape import normalize_axis, text
from treadle.ops.op import Array, Attrs, Evaluate, Info
from treadle.ops.operands import dims, operand, present, result
from treadle.ops.reduce import reduced_shape


def infer_arg_reduce(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axis, keepdims, last (of equal elements take the last, not the first). Gives i64."""
    x = operand(inputs, 0, "x")
    if not (x.dtype.is_float or x.dtype.is_integer):
        raise DtypeError(f"x must hold numbers, got {x.dtype}")
    shape = dims(x)
    axis = normalize_axis(attrs["axis"], len(shape))
    if shape[axis] == 0:
        raise ShapeError(f"axis {axis} of x {text(shape)} is empty: no element is the largest")
    return [result(dtypes.i64, reduced_shape(shape, (axis,), keepdims=attrs["keepdims"]))]


def evaluate_arg_reduce(name: str) -> Evaluate:
    """The NumPy reference of `name`. A NaN counts as the extreme element."""
    find = np.argmax if name == "argmax" else np.argmin

    def evaluate(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
        x, axis, keep = present(arrays, 0), attrs["axis"], bool(attrs["keepdims"])
        if not attrs["last"]:
            return [np.asarray(find(x, axis=axis, keepdims=keep), np.int64)]
        return [np.asarray(x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=keep), np.int64)]

    return evaluate
