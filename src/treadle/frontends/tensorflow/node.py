"""Nodes of TensorFlow graphs: their inputs, and their attributes as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.dtypes import DType, f32
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.messages import AttrValue
from treadle.frontends.tensorflow.tensors import NUMBERS, dims_of, dtype_of, shape_message, tensor_message, to_array


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The name of a function of the graph's library."""

    text: str


Ref = tuple[str, int]
"""A tensor: the name of its node, and its index among the results of the node."""


@dataclass(slots=True)
class Node:
    """One node. `inputs` are tensors, `controls` the names of nodes that must run before it."""

    name: str
    op: str
    inputs: list[Ref]
    controls: list[str] = field(default_factory=list)
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Return whether the node has the attribute `name`."""
        return name in self.attrs

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` if there is none. Raises Fault for a malformed one."""
        found = self.attrs.get(name, default)
        if isinstance(found, Fault):
            raise found
        return found

    def dtype(self, name: str) -> DType:
        """Return the element type in an attribute; float32 if there is none."""
        found = self.attr(name, f32)
        return found if isinstance(found, DType) else f32

    def function(self, name: str) -> str:
        """Return the name of the function in an attribute. Raises Fault if it names none."""
        found = self.attr(name)
        if not isinstance(found, FunctionName):
            raise Fault(f"its attribute {name} names no function")
        return found.text

    def functions(self, name: str) -> list[str]:
        """Return the names of the functions in an attribute. Raises Fault if it names none."""
        found = self.attr(name)
        if not isinstance(found, list) or not found or not all(isinstance(each, FunctionName) for each in found):
            raise Fault(f"its attribute {name} names no functions")
        return [each.text for each in found]

    @property
    def place(self) -> str:
        """The name of the node in error messages."""
        return f"node {self.name!r} ({self.op})"


def python_values(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Convert AttrValues to Python values.

    These are text, numbers, DTypes, dimensions (see `dims_of`), arrays, FunctionNames and lists. A malformed attribute
    becomes the Fault that describes it, which `Node.attr` raises. Private ones (`_class`) are left out.
    """
    return {name: _value(message, name) for name, message in attrs.items() if name[:1] != "_"}


def _value(message: Any, name: str) -> Any:
    kind = message.WhichOneof("value")
    if kind is None or kind == "placeholder":
        return Fault(f"its attribute {name} has no value")
    value = getattr(message, kind)
    try:
        if kind == "list":
            filled = [(part.name, getattr(value, part.name)) for part in value.DESCRIPTOR.fields]
            return next(([_single(part, item) for item in items] for part, items in filled if len(items)), [])
        return _single(kind, value)
    except Fault as fault:
        return fault


def _single(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode("utf-8", "replace")
    if kind == "type":
        return dtype_of(value)
    if kind == "shape":
        return dims_of(value)
    if kind == "tensor":
        return to_array(value)
    return FunctionName(value.name) if kind == "func" else value


def attr_value(value: Any) -> Any:
    """Convert a Python value to an AttrValue, the inverse of `python_values`."""
    message = AttrValue()
    if isinstance(value, DType):
        message.type = NUMBERS[value]
    elif isinstance(value, bool):
        message.b = value
    elif isinstance(value, int):
        message.i = value
    elif isinstance(value, float):
        message.f = value
    elif isinstance(value, str):
        message.s = value.encode()
    elif isinstance(value, FunctionName):
        message.func.name = value.text
    elif isinstance(value, np.ndarray):
        message.tensor.CopyFrom(tensor_message(value))
    elif value is None or isinstance(value, tuple):
        message.shape.CopyFrom(shape_message(value))
    else:
        message.list.SetInParent()
        for item in value:
            part = attr_value(item)
            kind = part.WhichOneof("value")
            field = getattr(message.list, kind)
            field.append(getattr(part, kind)) if kind in ("s", "i", "f", "b", "type") else field.add().CopyFrom(
                getattr(part, kind)
            )
    return message


def tensor_ref(text: str) -> Ref:
    """Parse the name of a tensor, "name" or "name:<index>"."""
    name, colon, index = text.rpartition(":")
    return (name, int(index)) if colon and index.isascii() and index.isdigit() and len(index) < 10 else (text, 0)


def tensor_name(ref: Ref) -> str:
    """Return the shortest name of a tensor: "name", or "name:1"."""
    return f"{ref[0]}:{ref[1]}" if ref[1] else ref[0]


def parse_node(message: Any) -> Node:
    """Convert a NodeDef of a graph. Inside functions inputs are written differently (see `Library`)."""
    reads, controls = split_inputs(message.input)
    return Node(message.name, message.op, [tensor_ref(text) for text in reads], controls, python_values(message.attr))


def split_inputs(inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the inputs of a NodeDef into tensors and control inputs."""
    return [text for text in inputs if text[:1] != "^"], [text[1:] for text in inputs if text[:1] == "^"]
