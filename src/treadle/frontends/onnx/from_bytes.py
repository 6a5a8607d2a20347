"""An operator for the `onnx` package's reference implementation: tensors of float8 or few bits from bytes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.frontends.onnx.types import FEW_BITS
from treadle.ops.op import Array

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

FROM_BYTES = "TreadleFromBytes"
"""The name of the operator, which no model has: it stands in recipes of values."""


def numbers_of_bytes(element: int) -> Array:
    """Return the number, f32, that each byte stands for as bits of this type of floats."""
    from onnx.helper import tensor_dtype_to_np_dtype

    return np.arange(256, dtype=np.uint8).view(tensor_dtype_to_np_dtype(element)).astype(np.float32)


@cache
def from_bytes() -> type[OpRun]:
    """Return the operator. Its attribute `to` is the element type of its result."""
    from onnx.helper import tensor_dtype_to_np_dtype
    from onnx.reference.op_run import OpRun

    class FromBytes(OpRun):
        op_domain = ""

        def _run(self, stored: Array, to: int | None = None) -> tuple[Any, ...]:
            assert to is not None, "every recipe states the element type"
            dtype = np.dtype(tensor_dtype_to_np_dtype(to))
            return (stored.astype(dtype) if to in FEW_BITS else stored.view(dtype),)

    FromBytes.__name__ = FROM_BYTES
    return FromBytes
