"""inverse: the inverse of each matrix."""

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import f32, f64
from treadle.errors import DtypeError, KernelError, ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import operand, present, rank_at_least, result


def infer_inverse(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [..., N, N], f32 or f64."""
    x = operand(inputs, 0, "x")
    shape = rank_at_least(x, 2, "x")
    if x.dtype not in (f32, f64):
        raise DtypeError(f"x must be f32 or f64, got {x.dtype}")
    if shape[-1] != shape[-2]:
        raise ShapeError(f"x must be square matrices [..., n, n], got {text(shape)}")
    return [result(x.dtype, shape)]


def evaluate_inverse(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Raises KernelError for a matrix that has no inverse."""
    try:
        return [np.linalg.inv(present(arrays, 0))]
    except np.linalg.LinAlgError:
        raise KernelError("a matrix is singular: it has no inverse") from None
