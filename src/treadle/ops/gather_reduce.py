"""gather_reduce: rows of a table picked by index, each bag of them reduced to one (`EmbeddingBag` of PyTorch)."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.shape import text
from treadle.ops.gather import evaluate_gather
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    absent_or,
    dims,
    need_integer,
    operand,
    optional,
    present,
    rank_at_least,
    result,
    same_dtype,
)
from treadle.ops.reduce import evaluate_reduce, reduced_axes, reduced_shape


def infer_gather_reduce(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [rows, ...], indices, weights of the rows picked (or none): reduce(x[indices] * weights) over axes of
    `indices`.

    attrs: how (reduce_sum, reduce_mean, ...), axes, keepdims. `weights` has the shape of `indices`, axes of size 1 may
    follow.
    """
    x, indices = operand(inputs, 0, "x"), operand(inputs, 1, "indices")
    need_integer(indices, "indices")
    row = rank_at_least(x, 1, "x")[1:]
    if x.dtype == dtypes.string:
        raise ShapeError("strings cannot be reduced")
    shape = dims(indices)
    weights = optional(inputs, 2)
    if weights is not None:
        same_dtype(("x", x), ("weights", weights))
        rank, found = len(shape), dims(weights)
        if found[:rank] != shape or any(dim != 1 for dim in found[rank:]) or len(found) > rank + len(row):
            raise ShapeError(f"weights {text(found)} do not give one number for each of the indices {text(shape)}")
    axes = reduced_axes(attrs["axes"], len(shape))
    return [result(x.dtype, (*reduced_shape(shape, axes, keepdims=attrs["keepdims"]), *row))]


def evaluate_gather_reduce(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """The NumPy reference: floats are accumulated in float64, their products with weights rounded first."""
    x, indices, weights = present(arrays, 0), present(arrays, 1), absent_or(arrays, 2)
    (rows,) = evaluate_gather({"axis": 0}, [x, indices])
    if weights is not None:
        with np.errstate(all="ignore"):
            rows = np.multiply(rows, weights.reshape(*indices.shape, *(1,) * (x.ndim - 1)))
    axes = reduced_axes(attrs["axes"], indices.ndim)
    return evaluate_reduce(attrs["how"])({"axes": axes, "keepdims": attrs["keepdims"]}, [rows])
