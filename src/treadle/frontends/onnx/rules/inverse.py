"""Inverse of com.microsoft."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import RunError, ShapeError
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.shape import text
from treadle.graph.value import Value
from treadle.ops.op import Array, Info


class Inverse:
    """Inverts each matrix of [..., n, n]; halves in f32. Raises RunError for one that has no inverse."""

    storable = True

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The inverses."""
        (x,) = arrays
        wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
        try:
            return [np.linalg.inv(wide).astype(x.dtype)]
        except np.linalg.LinAlgError:
            raise RunError("Inverse: a matrix is singular") from None


def _infer(infos: Sequence[Info | None]) -> list[Info]:
    (x,) = infos
    assert x is not None, "the operand is not optional"
    if x.shape is not None and (len(x.shape) < 2 or x.shape[-1] != x.shape[-2]):
        raise ShapeError(f"x must be square matrices [..., n, n], got {text(x.shape)}")
    return [Info(x.dtype, x.shape)]


def inverse(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Inverse(x) -> a call of NumPy's inverse."""
    x = node.input(0)
    if x.dtype not in (dtypes.f16, dtypes.f32, dtypes.f64):
        return None
    return b.add_call([x], [x.known_dtype], Inverse(), _infer, "Inverse")
