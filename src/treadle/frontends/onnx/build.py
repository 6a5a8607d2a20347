"""The builder that rules use to add core nodes and constants to the imported graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.known import Known
from treadle.frontends.onnx.reference import ForeignFunction
from treadle.graph.graph import Graph, link
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.op import Array, Info
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Quantized:
    """The operands of the DequantizeLinear that made a value: `x`, its scale and its zero point where they are known.

    Both have one element, or one for each place on `axis`; `zero` is of x's dtype.
    """

    x: Value
    scale: Array
    zero: Array
    axis: int

    def same_as(self, scale: Array, zero: Array) -> bool:
        """Whether quantizing the value with this one positive scale and zero point gives `x` back."""
        if not self.scale.size == scale.size == self.zero.size == zero.size == 1 or zero.dtype != self.zero.dtype:
            return False
        return bool(0 < scale.item() == self.scale.item() and zero.item() == self.zero.item())


@dataclass(frozen=True, slots=True)
class LowBits:
    """The constant operands of the DequantizeLinear that made a matrix.

    Attributes:
        numbers: The matrix, i8 or u8. Its elements fit in `bits` bits.
        scale: One in all, one for each index of `axis`, or a matrix with one for each block of `block` indices of it.
        zero: The zero points, of the shape of `scale`.
    """

    numbers: Array
    scale: Array
    zero: Array
    axis: int
    block: int
    bits: int


Function = Callable[[Sequence[Array]], list[Array]]
CallInfer = Callable[[Sequence[Info | None]], list[Info]]


class Builder:
    """Adds core nodes to `graph`, named `name` after the ONNX node that is being translated."""

    def __init__(self, graph: Graph, known: Known) -> None:
        self.graph = graph
        self.known = known
        self.name = ""
        self.quantized: dict[Value, Quantized] = {}
        """Dequantized values, with the quantized operands that they came from."""
        self.few_bits: dict[Value, int] = {}
        """Constants i8 or u8 that have an element type of 2 or 4 bits in the model -> its number of bits."""
        self.low_bits: dict[Value, LowBits] = {}
        """Matrices that were dequantized from such constants -> the operands."""
        self.round_low_bits = False
        """Whether products with such matrices round their other factor to 8 bits."""
        self.spare: set[Node] = set()
        """Nodes that the importer drops at the end if nothing reads their results."""

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """The result of a new node."""
        return self.add_many(op, inputs, 1, **attrs)[0]

    def add_many(self, op: str, inputs: Sequence[Value | None], outputs: int, **attrs: Any) -> list[Value]:
        """The results of a new node. Raises Fault if its operands do not fit."""
        return self._place(self.graph.make(op, inputs, attrs, name=self.name, outputs=outputs))

    def add_call(
        self, inputs: Sequence[Value], dtypes: Sequence[DType], function: Function, infer: CallInfer | None, label: str
    ) -> list[Value]:
        """The results, of these dtypes, of a new `call` node that runs `function`."""
        movable = isinstance(function, ForeignFunction)
        attrs = {"function": function, "infer": infer, "blocking": False, "label": label, "movable": movable}
        results = [self.graph.value(self.name, dtype) for dtype in dtypes]
        return self._place(self.graph.make("call", inputs, attrs, name=self.name, outputs=results))

    def add_branch(self, condition: Value, operands: Sequence[Value], yes: Graph, no: Graph) -> list[Value]:
        """The results of a new `branch` node with these bodies, which have an input for each of `operands`.

        Raises Fault if the bodies do not fit together.
        """
        results = [self.graph.value(self.name, value.dtype) for value in yes.outputs]
        attrs = {"yes": yes, "no": no}
        return self._place(self.graph.make("branch", [condition, *operands], attrs, name=self.name, outputs=results))

    def add_loop(
        self, operands: Sequence[Value | None], body: Graph, carried: int, sliced: int, *, padded: bool
    ) -> list[Value]:
        """The results of a new `loop` node: carried values, stacked ones, the number of iterations.

        Raises Fault if the operands do not fit.
        """
        results = [self.graph.value(self.name, value.dtype) for value in body.outputs[1:]]
        results.append(self.graph.value(self.name, dtypes.i64))
        attrs = {"body": body, "carried": carried, "sliced": sliced, "padded": padded}
        return self._place(self.graph.make("loop", operands, attrs, name=self.name, outputs=results))

    def _place(self, node: Node) -> list[Value]:
        self.known.add_node(node)
        self.graph.nodes.append(node)
        link(node)
        return node.outputs

    def constant(self, data: Array) -> Value:
        """A new constant."""
        return self.graph.constant(data, f"{self.name}.constant")

    def integers(self, numbers: Sequence[int]) -> Value:
        """A new constant i64[n]: axes, sizes, ..."""
        return self.constant(np.asarray(numbers, np.int64))

    def as_scalar(self, value: Value) -> Value:
        """`value`, which has one element, as a tensor of rank 0."""
        return self.add("reshape", value, self.integers([]), allowzero=False)

    def cast(self, value: Value, to: DType | None) -> Value:
        """`value` in the dtype `to`: itself if it has that dtype already, or if `to` is unknown."""
        return value if to is None or value.dtype == to else self.add("cast", value, to=to)

    def size(self, value: Value, axis: int) -> Value:
        """The size of an axis, which is not negative, as an i64 scalar."""
        return self.as_scalar(self.add("shape", value, start=axis, end=axis + 1))

    def numbers(self, count: Value) -> Value:
        """0 to `count` - 1, an i64 scalar, as i64[count]."""
        return self.add("range", self.scalar(0, dtypes.i64), count, self.scalar(1, dtypes.i64))

    def scalar(self, number: float, dtype: DType | None) -> Value:
        """A new constant of rank 0. Raises Fault if `dtype` is not known."""
        if dtype is None:
            raise Fault("the element type of its input cannot be told")
        return self.constant(np.asarray(number).astype(dtype.numpy))
