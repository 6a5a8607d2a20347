"""Tensors as models store them: how many elements there are, and what their bytes say."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.errors import LimitError, ShapeError
from treadle.frontends.faults import Fault
from treadle.graph.shape import StaticShape, elements

Array = np.ndarray[Any, Any]


def declared_elements(shape: Iterable[int]) -> int:
    """How many elements a tensor of `shape` has. Raises Fault for an impossible one."""
    try:
        return elements(shape)
    except (ShapeError, LimitError) as error:
        raise Fault(str(error)) from None


def from_bytes(content: bytes | memoryview, dtype: DType, shape: StaticShape) -> Array:
    """The array whose elements are stored as `content`, in little-endian order; not copied where it need not be."""
    stored = dtype.numpy if dtype.numpy.kind == "V" else dtype.numpy.newbyteorder("<")
    return np.frombuffer(content, dtype=stored).astype(dtype.numpy, copy=False).reshape(shape)
