"""Decodes stored tensors: element counts and bytes."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.errors import LimitError, ShapeError
from treadle.frontends.faults import Fault
from treadle.graph.shape import StaticShape, elements

Array = np.ndarray[Any, Any]


def declared_elements(shape: Iterable[int]) -> int:
    """Returns the number of elements of `shape`. Raises Fault for an impossible shape."""
    try:
        return elements(shape)
    except (ShapeError, LimitError) as error:
        raise Fault(str(error)) from None


def from_bytes(content: bytes | memoryview, dtype: DType, shape: StaticShape) -> Array:
    """Returns the array stored as little-endian `content`, without a copy where possible."""
    stored = dtype.numpy if dtype.numpy.kind == "V" else dtype.numpy.newbyteorder("<")
    return np.frombuffer(content, dtype=stored).astype(dtype.numpy, copy=False).reshape(shape)
