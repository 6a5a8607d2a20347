"""The interface by which rules add core nodes and constants to the graph under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import DtypeError, LimitError, ShapeError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph, link
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements, is_open, is_static
from treadle.graph.value import Value
from treadle.ops.evaluate import infer_node, results_of
from treadle.ops.op import Array, Info
from treadle.ops.sizes import add_sizes, evaluate_on_sizes, known_value
from treadle.ops.table import OPS

MOST_FOLDED = 4096
"""The largest constant operands, in elements, of nodes that are evaluated at once: shape arithmetic."""

MOST_LISTED = 1 << 22
"""The largest number of elements that a rule writes out as a constant."""

MOST_RESULTS = 1 << 16
"""The largest number of results of one op."""


class Emitter:
    """Adds core nodes to `graph`, each called `name`: the TensorFlow op under translation.

    Sizes are numbers or expressions. Shape arithmetic is done at once, on both.
    """

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
        folded = self._folded(node, infos)
        if folded is not None:
            return [self.known(array, value.known_dtype) for array, value in zip(folded, node.outputs, strict=True)]
        return self._place(node)

    def _place(self, node: Node) -> list[Value]:
        self.graph.nodes.append(node)
        link(node)
        return node.outputs

    def known(self, array: Array, dtype: DType) -> Value:
        """Add a constant for an array of numbers, a node for one with expressions of sizes."""
        if array.dtype != object or dtype is dtypes.string:
            return self.constant(array)
        made = add_sizes(self.graph, array, dtype, f"{self.name}.constant")
        return made if isinstance(made, Value) else self._place(made)[0]

    def constant(self, data: Array) -> Value:
        """Add a constant."""
        return self.graph.constant(np.ascontiguousarray(data).reshape(np.shape(data)), f"{self.name}.constant")

    def integers(self, numbers: Sequence[int]) -> Value:
        """Add i64[n]: axes, sizes, ..."""
        return self.sizes(numbers, dtypes.i64)

    def sizes(self, numbers: Sequence[int] | int, dtype: DType) -> Value:
        """Add a vector of sizes, or a scalar."""
        array = np.empty(np.shape(numbers), object)
        array[...] = numbers
        return self.known(array, dtype)

    def positions(self, count: int, dtype: DType) -> Value:
        """Add 0, 1, ... below `count`. Raises LimitError if a constant would be too large."""
        if is_expression(count):
            return self.add("range", *(self.sizes(number, dtype) for number in (0, count, 1)))
        return self.constant(np.arange(self.limited(count, MOST_LISTED)).astype(dtype.numpy))

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
        """Return `value` cast to `to`. Raises DtypeError for strings that are to be numbers."""
        if value.dtype is dtypes.string and to is not dtypes.string:
            raise DtypeError(f"Cast string to {to} is not supported")
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
        """Return the elements of a value that is known, of Python objects if some are expressions.

        Raises NeedsShapeError for any other value.
        """
        known = known_value(value)
        if known is None:
            raise NeedsShapeError(value)
        return known

    def numbers(self, value: Value) -> list[int]:
        """Return the elements of integers that are known, flat."""
        return [integer(number) for number in self.static(value).reshape(-1).tolist()]

    def expect_rank(self, value: Value, rank: int) -> None:
        """Note that the op takes `value` with this rank only, for emitters that do not know all ranks."""

    def described(self, value: Value, dims: Callable[[], Sequence[int | None] | None]) -> Value:  # noqa: ARG002 - as expect_rank()
        """Return `value`, of whose shape `dims()` is known where nothing else is (None: an unknown size or rank)."""
        return value

    def unknown(self, dtype: DType, dims: Sequence[int | None] | None) -> Value:  # noqa: ARG002 - as expect_rank()
        """Return a result of which only this is known. Raises NeedsShapeError where that is too little."""
        raise NeedsShapeError

    def finish(self, values: Sequence[Value], names: Sequence[str]) -> None:
        """Make `values` the outputs of the graph, under `names`."""
        taken: set[Value] = set(self.graph.inputs)
        for value, name in zip(values, names, strict=True):
            found = value
            if value in taken or value.producer is None:
                node = self.graph.add("identity", [value], name=name)
                found = node.output
                found.dtype, found.shape = value.dtype, value.shape
            taken.add(found)
            found.name = name
            self.graph.outputs.append(found)

    def _folded(self, node: Node, infos: Sequence[Info]) -> list[Array] | None:
        """Return the results of `node` if they are known, or computed from small operands that are."""
        if all(info.value is not None for info in infos):
            return [np.asarray(info.value) for info in infos]
        if (
            node.op == "call"
            or not OPS[node.op].folds
            or any(info.shape is None or is_open(info.shape) for info in infos)
        ):
            return None
        arrays = [None if value is None else known_value(value) for value in node.inputs]
        operands = [value for value in node.inputs if value is not None]
        known = [array for array in arrays if array is not None]
        if len(known) < len(operands) or any(value.dtype is dtypes.string for value in operands):
            return None
        if max([elements(info.shape or ()) for info in infos] + [array.size for array in known]) > MOST_FOLDED:
            return None
        if any(value.data is None for value in operands):
            return evaluate_on_sizes(node, arrays, OPS[node.op].evaluate)
        return list(results_of(node, arrays))


def integer(number: float) -> int:
    """Return a number as an int; an expression as it is. Raises TypeError for text."""
    if isinstance(number, str | bytes):
        raise TypeError(f"Cannot convert {number!r} to a tensor of dtype int32")
    return number if is_expression(number) else int(number)  # type: ignore[return-value]


def info_of(value: Value) -> Info:
    """Return what is known of `value`."""
    known = value.shape is not None and is_static(value.shape)
    return Info(value.known_dtype, value.static_shape if known else None, known_value(value))
