"""The builder that rules use: it adds core nodes and constants to a graph whose inputs have dtypes and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import DimExpr, at_least, at_most, is_expression
from treadle.graph.graph import Graph, link
from treadle.graph.node import Node
from treadle.graph.shape import Shape, StaticShape, elements, equal_shapes, is_open, is_static, normalize_axis
from treadle.graph.value import Value
from treadle.ops.certain import infos_or_dtypes
from treadle.ops.evaluate import infer_node
from treadle.ops.op import Array, Info
from treadle.ops.sizes import add_sizes, evaluate_on_sizes, known_value
from treadle.ops.table import OPS

MOST_FOLDED = 4096
"""The largest number of elements of a constant result that is computed at once: index arithmetic, positions, masks."""


@dataclass(frozen=True, slots=True)
class Number:
    """A Python number that is known only when the graph runs (`x.item()`): a value of rank 0."""

    value: Value


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex tensor: its real and its imaginary part, of one dtype and shape."""

    re: Value
    im: Value

    @property
    def dtype(self) -> DType | None:
        """The dtype of the parts."""
        return self.re.dtype

    @property
    def shape(self) -> Shape | None:
        """The shape, as of a Value."""
        return self.re.shape

    @property
    def static_shape(self) -> StaticShape:
        """The shape where it is known, as of a Value."""
        return self.re.static_shape


@dataclass(frozen=True, slots=True)
class ComplexType:
    """A complex element type, whose parts are of the type `part`."""

    part: DType


class Builder:
    """Adds core nodes to `graph`, under `name`, the op that is being translated.

    With `facts`, nothing is assumed of sizes: they are expressions of these, and each node is inferred for all of them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name = ""
        self.facts: CaseAnalysis | None = None

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Returns the result of a new node."""
        return self.add_many(op, inputs, 1, **attrs)[0]

    def add_many(self, op: str, inputs: Sequence[Value | None], outputs: int, **attrs: Any) -> list[Value]:
        """Returns the results of a new node.

        A node that reads small constants only is computed at once. Raises ShapeError if operands do not fit.
        """
        node = self.graph.make(op, inputs, attrs, name=self.name, outputs=outputs)
        infos = [
            None if value is None else Info(value.known_dtype, _static(value), known_value(value)) for value in inputs
        ]
        found = infer_node(node, infos) if self.facts is None else infos_or_dtypes(node, infos, self.facts)
        for value, info in zip(node.outputs, found, strict=True):
            value.dtype, value.shape = info.dtype, info.shape
        folded = _folded(node)
        if folded is not None:
            return [self.known(array, value.known_dtype) for array, value in zip(folded, node.outputs, strict=True)]
        return self._place(node)

    def known(self, array: Array, dtype: DType) -> Value:
        """Returns a value with these elements: numbers, or expressions of sizes."""
        if array.dtype != object:
            return self.constant(array)
        made = add_sizes(self.graph, array, dtype, self.name)
        return made if isinstance(made, Value) else self._place(made)[0]

    def add_call(
        self, inputs: Sequence[Value], outputs: Sequence[tuple[DType, StaticShape | None]], **attrs: Any
    ) -> list[Value]:
        """Returns the results of a new `call` node, with these dtypes and shapes (None: known at run time)."""
        results = [self.graph.value(self.name, dtype, shape) for dtype, shape in outputs]

        def infer(_: Sequence[Info | None]) -> list[Info]:
            return [Info(dtype, shape) for dtype, shape in outputs]

        attrs = {"infer": infer, "blocking": False, **attrs}
        return self._place(self.graph.make("call", inputs, attrs, name=self.name, outputs=results))

    def add_branch(self, condition: Value, operands: Sequence[Value], yes: Graph, no: Graph) -> list[Value]:
        """Returns the results of a new `branch` node, with the shapes that `yes` gives them."""
        results = [self.graph.value(self.name, value.dtype, value.shape) for value in yes.outputs]
        attrs = {"yes": yes, "no": no}
        return self._place(self.graph.make("branch", [condition, *operands], attrs, name=self.name, outputs=results))

    def add_loop(
        self, operands: Sequence[Value | None], body: Graph, carried: int, most: int | None = None
    ) -> list[Value]:
        """Returns the carried and stacked values after a new `loop` node, whose body keeps the forms of carried ones.

        Stacked values have an item for each of `most` iterations; None: their number depends on data.
        """
        after, items = body.outputs[1 : 1 + carried], body.outputs[1 + carried :]
        results = [self.graph.value(self.name, value.dtype, value.shape) for value in after]
        shapes = [None if most is None else (most, *value.static_shape) for value in items]
        results += [self.graph.value(self.name, value.dtype, shape) for value, shape in zip(items, shapes, strict=True)]
        count = self.graph.value(self.name, dtypes.i64, ())
        attrs = {"body": body, "carried": carried, "sliced": 0, "padded": False}
        self._place(self.graph.make("loop", operands, attrs, name=self.name, outputs=[*results, count]))
        return results

    def _place(self, node: Node) -> list[Value]:
        self.graph.nodes.append(node)
        link(node)
        return node.outputs

    def constant(self, data: Array, name: str = "") -> Value:
        """Returns a new constant; arrays that are not contiguous are copied."""
        return self.graph.constant(np.ascontiguousarray(data).reshape(data.shape), name or f"{self.name}.constant")

    def ints(self, numbers: Sequence[int]) -> Value:
        """Returns i64[n]: axes, sizes, ..."""
        if not any(map(is_expression, numbers)):
            return self.constant(np.asarray(numbers, np.int64).reshape(-1))
        array = np.empty(len(numbers), object)
        array[:] = list(numbers)
        return self.known(array, dtypes.i64)

    def scalar(self, number: float, dtype: DType) -> Value:
        """Returns a new value of rank 0."""
        if not is_expression(number):
            return self.constant(np.asarray(number).astype(dtype.numpy))
        array = np.empty((), object)
        array[()] = number
        whole = isinstance(number, DimExpr)
        made = self.known(array, dtypes.i64 if whole else dtype)
        return self.cast(made, dtype)

    def number(self, number: float) -> Value:
        """Returns a Python number as NumPy types it: a value of rank 0."""
        if is_expression(number):
            return self.scalar(number, dtypes.i64 if isinstance(number, DimExpr) else dtypes.f64)
        return self.constant(np.asarray(number))

    def full(self, number: float, dtype: DType, shape: StaticShape) -> Value:
        """Returns a value filled with `number`."""
        if not is_open(shape) and not is_expression(number) and elements(shape) <= MOST_FOLDED:
            return self.constant(np.full(shape, number, dtype.numpy))
        return self.expand(self.scalar(number, dtype), shape)

    def shape(self, x: Value | Complex) -> StaticShape:
        """Returns the shape of `x`. Raises NeedsShapeError if it depends on data."""
        shape = _static(x)
        if shape is None:
            raise NeedsShapeError
        return shape

    def rank(self, x: Value | Complex) -> int:
        """Returns the rank of `x`. Raises as `shape`."""
        return len(self.shape(x))

    def axis(self, x: Value, dim: int) -> int:
        """Returns `dim` counted from the front; a scalar has one axis, as in PyTorch."""
        return normalize_axis(dim, max(1, self.rank(x)))

    def axes(self, x: Value, dims: int | Sequence[int] | None) -> tuple[int, ...]:
        """Returns `dims` counted from the front, sorted; None or empty means all."""
        if dims is None or (not isinstance(dims, int) and not dims):
            return tuple(range(self.rank(x)))
        return tuple(sorted({self.axis(x, dim) for dim in ([dims] if isinstance(dims, int) else dims)}))

    def cast(self, x: Value, to: DType) -> Value:
        """Returns `x` converted to `to`."""
        return x if x.dtype == to else self.add("cast", x, to=to)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Returns `x` reshaped; the shape may hold a -1."""
        if equal_shapes(x.shape, tuple(shape)):
            return x
        inferred = any(not is_expression(size) and size == -1 for size in shape)
        return self.add("reshape", x, self.ints(shape), allowzero=not inferred)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Returns `x` with its axes permuted by `perm`."""
        return x if tuple(perm) == tuple(range(len(perm))) else self.add("transpose", x, perm=tuple(perm))

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Returns `x` broadcast to `shape`."""
        return x if equal_shapes(x.shape, tuple(shape)) else self.add("expand", x, self.ints(shape))

    def slice(self, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """Returns `x` from `start` to `end` along `axis`."""
        if step == 1 and at_most(start, 0) and at_least(end - self.shape(x)[axis], 0):
            return x
        return self.add("slice", x, *map(self.ints, ([start], [end], [axis], [step])))

    def matmul(self, x: Value, y: Value, *, transpose_b: bool = False) -> Value:
        """Returns the matrix product."""
        return self.add("matmul", x, y, transpose_a=False, transpose_b=transpose_b)

    def reduce(self, op: str, x: Value, axes: Sequence[int], *, keepdims: bool = False) -> Value:
        """Returns `x` reduced by `op` over `axes`."""
        return self.add(op, x, axes=tuple(axes), keepdims=keepdims) if axes else x


def _static(value: Value | Complex) -> StaticShape | None:
    return value.static_shape if value.shape is not None and is_static(value.shape) else None


def _folded(node: Node) -> list[Array] | None:
    """Returns the results of a node that reads constants only, if all of them are small."""
    evaluate = OPS[node.op].evaluate
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    arrays = [None if value is None else known_value(value) for value in node.inputs]
    if evaluate is None or any(
        value is not None and array is None for value, array in zip(node.inputs, arrays, strict=True)
    ):
        return None
    if any(value.shape is None or is_open(value.static_shape) for value in values):
        return None
    if any(elements(value.static_shape) > MOST_FOLDED for value in values):
        return None
    if any(value is not None and value.data is None for value in node.inputs):
        return evaluate_on_sizes(node, arrays, evaluate)
    return list(evaluate(node.attrs, arrays))
