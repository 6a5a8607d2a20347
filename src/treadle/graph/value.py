"""Values: the tensors that flow along the edges of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import GraphError
from treadle.graph.layout import Layout
from treadle.graph.shape import Shape, StaticShape, is_static
from treadle.graph.users import Users

if TYPE_CHECKING:
    from treadle.graph.node import Node


class Value:
    """A tensor in a graph: an input, a constant, or the output of a node.

    `dtype` and `shape` are None until known; `shape` may hold symbols (strings) until the graph is
    specialised. `data` is the array of a constant, else None. `producer` is the node that makes it
    (None for inputs and constants); `users` lists each node once for every time it reads the value.
    """

    __slots__ = ("data", "dtype", "layout", "name", "producer", "shape", "users")

    def __init__(
        self,
        name: str,
        dtype: DType | None = None,
        shape: Shape | None = None,
        *,
        data: np.ndarray[Any, Any] | None = None,
        layout: Layout = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.data = data
        self.layout = layout
        self.producer: Node | None = None
        self.users = Users()

    @staticmethod
    def constant(name: str, data: np.ndarray[Any, Any]) -> Value:
        """A constant holding `data`."""
        return Value(name, dtypes.from_numpy(data.dtype), data.shape, data=data)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def static_shape(self) -> StaticShape:
        """The shape, all numbers. Raises GraphError while it is unknown or symbolic."""
        if self.shape is None or not is_static(self.shape):
            raise GraphError(f"value {self.name!r} has no static shape yet (it is {self.shape})")
        return self.shape

    @property
    def known_dtype(self) -> DType:
        """The dtype. Raises GraphError while it is unknown."""
        if self.dtype is None:
            raise GraphError(f"value {self.name!r} has no dtype yet")
        return self.dtype

    def __repr__(self) -> str:
        shape = "?" if self.shape is None else list(self.shape)
        return f"%{self.name}: {self.dtype}{shape}" + (f":{self.layout}" if self.layout else "")
