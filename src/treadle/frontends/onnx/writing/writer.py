"""The writer of one ONNX graph: names of values, nodes and constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from treadle.dtypes import DType, i64, string
from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.types import NUMBERS
from treadle.graph.node import Node
from treadle.graph.value import Value

Array = np.ndarray[Any, Any]


class Unwritable(Unsupported):
    """What ONNX cannot express of a node."""


class Writer:
    """Collects the nodes of a graph, and of the bodies in it.

    `version` is the operator set that is written.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        """Functions of the model that written nodes call, by domain and name."""
        self.domains: dict[str, int] = {}
        """Domain of written nodes, other than the standard one -> its version."""
        self.places: dict[str, tuple[Value, int]] = {}
        """Name of an open dimension -> an input that has it, and the axis."""
        self.sizes: dict[object, str] = {}
        """Expression of a size -> the name of the tensor that has its value."""
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._title = ""

    def name(self, value: Value) -> str:
        """Return the name of a value; a constant is stored when it is first read."""
        found = self._names.get(value)
        if found is None:
            found = self._names[value] = self.fresh(value.name)
            if value.data is not None:
                self._store(value.data, found)
        return found

    def set_name(self, value: Value, name: str) -> None:
        """Give `value` the name of another value, or one that the caller has reserved."""
        self._names[value] = name

    def has_name(self, value: Value) -> bool:
        """True if `value` has a name already."""
        return value in self._names

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, or with a number behind it, as a name that nothing else has."""
        name, number = wanted or "value", 0
        while name in self._taken:
            number += 1
            name = f"{wanted}.{number}"
        self._taken.add(name)
        return name

    def constant(self, data: Array, wanted: str = "constant") -> str:
        """Store a constant and return its name."""
        name = self.fresh(wanted)
        self._store(data, name)
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        """Store a list of int64 and return its name."""
        return self.constant(np.array(numbers, np.int64), "numbers")

    def scalar(self, number: float, dtype: DType) -> str:
        """Store one number and return its name."""
        return self.constant(np.array(number, dtype.numpy), "number")

    def emit(self, op: str, inputs: Sequence[str], outputs: Sequence[str] = (), domain: str = "", **attrs: Any) -> str:
        """Add a node and return the name of its first result. Without `outputs` it has one, of a fresh name.

        Attributes that are None are left out.
        """
        if domain:
            self.domains.setdefault(domain, 1)
        names = list(outputs) or [self.fresh(f"{self._title}/{op}")]
        given = {key: _plain(value) for key, value in attrs.items() if value is not None}
        title = self.fresh(self._title or op)
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=title, domain=domain, **given))
        return names[0]

    def begin(self, node: Node) -> None:
        """Name the nodes that follow after `node`."""
        self._title = node.name

    @contextmanager
    def body(self) -> Iterator[list[onnx.NodeProto]]:
        """In the block, nodes are those of a body, which is yielded."""
        outer, title, sizes = self.nodes, self._title, self.sizes
        self.nodes, self.sizes = [], dict(sizes)
        try:
            yield self.nodes
        finally:
            self.nodes, self._title, self.sizes = outer, title, sizes

    def as_int64(self, value: Value) -> str:
        """Return the name of `value` as int64."""
        return self.name(value) if value.dtype == i64 else self.emit("Cast", [self.name(value)], to=NUMBERS[i64])

    def _store(self, data: Array, name: str) -> None:
        self.constants.append(tensor_of(data, name))


def tensor_of(data: Array, name: str) -> onnx.TensorProto:
    """Return a stored tensor."""
    if data.dtype.hasobject:
        texts = [item.encode() if isinstance(item, str) else item for item in data.ravel()]
        return onnx.TensorProto(name=name, data_type=NUMBERS[string], dims=data.shape, string_data=texts)
    return numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), name)


def _plain(value: Any) -> Any:
    """An attribute as `make_node` takes it."""
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, bool | np.bool_) else value


def rank_of(value: Value | None) -> int:
    """Return the rank of a value. Raises Unwritable if it is not known."""
    if value is None or value.shape is None:
        raise Unwritable("the rank of an operand is not known")
    return len(value.shape)


def dtype_of(value: Value | None) -> DType:
    """Return the dtype of a value. Raises Unwritable if it is not known."""
    if value is None or value.dtype is None:
        raise Unwritable("the element type of an operand is not known")
    return value.dtype


def operand(node: Node, index: int) -> Value:
    """Return an operand that is there."""
    found = node.inputs[index]
    assert found is not None, "its shape rule wants this operand"
    return found


def known_shape(value: Value | None) -> tuple[int, ...]:
    """Return the shape of a value. Raises Unwritable if it is not known to the last size."""
    sizes = None if value is None else value.shape
    known = tuple(size for size in sizes or () if type(size) is int)
    if sizes is None or len(known) < len(sizes):
        raise Unwritable("the shape of an operand is not known")
    return known


def optional(node: Node, index: int) -> Value | None:
    """Return an operand; None if it is absent."""
    return node.inputs[index] if index < len(node.inputs) else None
