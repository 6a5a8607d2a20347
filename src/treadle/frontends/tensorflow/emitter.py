"""The interface by which rules add core nodes and constants to the graph under construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import LimitError, ShapeError
from treadle.graph.graph import Graph, link
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements, is_static
from treadle.graph.value import Value
from treadle.ops.evaluate import infer_node, results_of
from treadle.ops.op import Array, Info

MOST_FOLDED = 4096
"""The largest constant operands, in elements, of nodes that are evaluated at once: shape arithmetic."""

MOST_LISTED = 1 << 22
"""The largest number of elements that a rule writes out as a constant."""

MOST_RESULTS = 1 << 16
"""The largest number of results of one op."""

SIZES = (120, 240)
"""The two sizes tried in place of each unknown one: dimensions that come out equal both times are known."""


class NeedsShapeError(Exception):
    """A rule needs a shape, or the value of a shape-like operand, that is not known yet."""


class Emitter:
    """Adds core nodes to `graph`, each called `name`: the TensorFlow op under translation."""

    def __init__(self, graph: Graph | None = None) -> None:
        self.graph = Graph("tensorflow") if graph is None else graph
        self.name = ""

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Add a node and return its result."""
        return self.add_many(op, inputs, 1, **attrs)[0]

    def add_many(self, op: str, inputs: Sequence[Value | None], outputs: int, **attrs: Any) -> list[Value]:
        """Add a node and return its results. Raises ShapeError if its operands do not fit."""
        node = self.graph.make(op, inputs, attrs, name=self.name or op, outputs=outputs)
        infos = infer_node(node, [None if value is None else info_of(value) for value in inputs])
        for value, info in zip(node.outputs, infos, strict=True):
            value.dtype, value.shape = info.dtype, info.shape
        folded = _folded(node, infos)
        if folded is not None:
            return [self.constant(array) for array in folded]
        self.graph.nodes.append(node)
        link(node)
        return node.outputs

    def constant(self, data: Array) -> Value:
        """Add a constant."""
        return self.graph.constant(np.ascontiguousarray(data).reshape(np.shape(data)), f"{self.name}.constant")

    def integers(self, numbers: Sequence[int]) -> Value:
        """Add a constant i64[n]."""
        return self.constant(np.asarray(numbers, np.int64))

    def scalar(self, number: float, like: Value) -> Value:
        """Add a constant of rank 0 with the dtype of `like`."""
        return self.constant(np.asarray(number).astype(like.known_dtype.numpy))

    @staticmethod
    def limited(count: int, most: int) -> int:
        """Return `count`. Raises LimitError if it is more than `most`."""
        if count > most:
            raise LimitError(f"{count} are requested; at most {most} are allowed")
        return count

    def full(self, shape: Sequence[int], number: float, dtype: DType) -> Value:
        """Return a tensor of `shape` whose elements are all `number`."""
        return self.add("expand", self.constant(np.asarray(number).astype(dtype.numpy)), self.integers(shape))

    def cast(self, value: Value, to: DType) -> Value:
        """Return `value` cast to `to`."""
        return value if value.dtype == to else self.add("cast", value, to=to)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Return `value` with its axes in the order `perm`."""
        return self.add("transpose", value, perm=tuple(perm))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return `value` reshaped."""
        return self.add("reshape", value, self.integers(shape), allowzero=True)

    def shape(self, value: Value) -> StaticShape:
        """Return the shape of `value`. Raises NeedsShapeError while it is unknown."""
        if value.shape is None or not is_static(value.shape):
            raise NeedsShapeError
        return value.static_shape

    def rank(self, value: Value) -> int:
        """Return the number of axes of `value`."""
        return len(self.shape(value))

    def axis(self, value: Value, axis: int) -> int:
        """Return `axis` of `value` as a number from 0. Raises ShapeError if there is none."""
        rank = self.rank(value)
        if not -rank <= axis < rank:
            raise ShapeError(f"axis {axis} is out of range for rank {rank}; wanted {-rank} to {rank - 1}")
        return axis % rank

    def static(self, value: Value) -> Array:
        """Return the array of a constant. Raises NeedsShapeError for any other value."""
        if value.data is None:
            raise NeedsShapeError
        return value.data

    def numbers(self, value: Value) -> list[int]:
        """Return the elements of an integer constant."""
        return [int(number) for number in np.atleast_1d(self.static(value))]


def info_of(value: Value) -> Info:
    """Return what is known of `value`."""
    known = value.shape is not None and is_static(value.shape)
    return Info(value.known_dtype, value.static_shape if known else None, value.data)


def _folded(node: Node, infos: Sequence[Info]) -> list[Array] | None:
    """Return the results of `node` if they are known, or computed from small constants."""
    if all(info.value is not None for info in infos):
        return [np.asarray(info.value) for info in infos]
    arrays = [None if value is None else value.data for value in node.inputs]
    absent = any(value is not None and value.data is None for value in node.inputs)
    if absent or node.op == "call" or any(info.shape is None for info in infos):
        return None
    if any(value is not None and value.dtype is dtypes.string for value in node.inputs):
        return None
    sizes = [elements(info.shape or ()) for info in infos] + [array.size for array in arrays if array is not None]
    return list(results_of(node, arrays)) if max(sizes) <= MOST_FOLDED else None
