"""reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod.

With a head (a scalar program over operands that broadcast together) the result of the head is reduced. Over no
elements they give 0, NaN, the least value, the greatest value and 1.
"""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.graph.expr import Expr
from treadle.graph.shape import StaticShape, normalize_axis
from treadle.ops.elementwise import evaluate_expr, infer_elementwise
from treadle.ops.op import Array, Attrs, Evaluate, Info
from treadle.ops.operands import dims, operand, present, result, widened

REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")


def reduced_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes to reduce, ascending; None means all. Raises ShapeError for a bad or doubled axis."""
    if axes is None:
        return tuple(range(rank))
    found = sorted(normalize_axis(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {list(axes)} name an axis twice")
    return tuple(found)


def reduced_shape(shape: StaticShape, axes: Sequence[int], *, keepdims: bool) -> StaticShape:
    """`shape` with `axes` shrunk to 1, or removed."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def infer_reduce(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axes (None: all; empty: none), keepdims, head (an Expr of one result; none if it is absent)."""
    head = attrs.get("head")
    if head is None and len(inputs) != 1:
        raise ShapeError(f"{len(inputs)} operands need a head that reads them, but there is none")
    x = operand(inputs, 0, "x") if head is None else _headed(head, inputs)
    if x.dtype == dtypes.string:
        raise ShapeError("strings cannot be reduced")
    shape = dims(x)
    axes = reduced_axes(attrs["axes"], len(shape))
    return [result(x.dtype, reduced_shape(shape, axes, keepdims=attrs["keepdims"]))]


def _headed(head: Expr, inputs: Sequence[Info | None]) -> Info:
    """The result of `head` on the inputs."""
    (found,) = infer_elementwise({"expr": head}, inputs, 1)
    return found


def extreme(dtype: DType, *, least: bool) -> float | int | bool:
    """The least or the greatest value of `dtype`: infinite for floats."""
    if dtype.is_float:
        return -np.inf if least else np.inf
    if dtype == dtypes.boolean:
        return not least
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if least else limits.max)


def evaluate_reduce(name: str) -> Evaluate:
    """The NumPy reference of `name`: floats are accumulated in float64."""

    def evaluate(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
        x = present(arrays, 0)
        if attrs.get("head") is not None:
            (x,) = evaluate_expr(attrs["head"], [present(arrays, number) for number in range(len(arrays))])
        dtype = dtypes.from_numpy(x.dtype)
        axes, keep = reduced_axes(attrs["axes"], x.ndim), bool(attrs["keepdims"])
        wide = widened(x)
        with np.errstate(all="ignore"):
            if name == "reduce_max":
                found = np.max(wide, axis=axes, keepdims=keep, initial=extreme(dtype, least=True))
            elif name == "reduce_min":
                found = np.min(wide, axis=axes, keepdims=keep, initial=extreme(dtype, least=False))
            elif name == "reduce_prod":
                found = np.prod(wide, axis=axes, keepdims=keep, dtype=wide.dtype)
            else:
                found = np.sum(wide, axis=axes, keepdims=keep, dtype=wide.dtype)
            if name == "reduce_mean":
                count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
                found = found / count if dtype.is_float else np.trunc(found / count)
            return [np.asarray(found).astype(dtype.numpy)]

    return evaluate
