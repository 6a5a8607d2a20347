"""softmax and log_softmax along one axis."""

from collections.abc import Sequence

import numpy as np

from treadle.graph.shape import normalize_axis
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, need_float, operand, present, result, widened


def infer_softmax(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axis; of softmax also safe, optional: along an axis of nothing but -inf the result is 0, not NaN.

    The result has the shape of x.
    """
    x = operand(inputs, 0, "x")
    normalize_axis(attrs["axis"], len(dims(x)))
    return [result(need_float(x, "x"), dims(x))]


def _shifted(x: Array, axis: int) -> Array:
    wide = widened(x)
    return np.asarray(wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf))


def evaluate_softmax(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """exp(x) / sum(exp(x))."""
    x = present(arrays, 0)
    with np.errstate(all="ignore"):
        powers = np.exp(_shifted(x, attrs["axis"]))
        found = powers / np.sum(powers, axis=attrs["axis"], keepdims=True)
        if attrs.get("safe"):
            found = np.where(np.all(np.isneginf(widened(x)), axis=attrs["axis"], keepdims=True), 0.0, found)
        return [found.astype(x.dtype)]


def evaluate_log_softmax(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """x - log(sum(exp(x)))."""
    x = present(arrays, 0)
    with np.errstate(all="ignore"):
        shifted = _shifted(x, attrs["axis"])
        return [(shifted - np.log(np.sum(np.exp(shifted), axis=attrs["axis"], keepdims=True))).astype(x.dtype)]
