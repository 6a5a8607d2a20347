"""The view of an ONNX node that rules get: operands as Values, typed attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import AttributeProto

from treadle.dtypes import DType
from treadle.errors import LimitError, ShapeError
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.known import Dims, Known
from treadle.frontends.onnx.reader import External
from treadle.frontends.onnx.tensors import to_array
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value
from treadle.ops.op import Array

_NO_FILES = External(None)


class OnnxNode:
    """One node. Operands and results count as the ONNX documentation numbers them.

    `version` is that of the node's domain. `outputs` are the names of its results without omitted ones at the end; an
    omitted one before the end is an empty string. `check` has refused models whose attributes do not have the types of
    the schema, so reading one raises only the errors named below.
    """

    def __init__(
        self,
        proto: onnx.NodeProto,
        name: str,
        version: int,
        inputs: Sequence[Value | None],
        known: Known,
    ) -> None:
        self.proto = proto
        self.name = name
        self.op = str(proto.op_type)
        self.version = version
        self.inputs = list(inputs)
        self.outputs = list(proto.output)
        while self.outputs and not self.outputs[-1]:
            self.outputs.pop()
        self._known = known
        self._attributes: dict[str, AttributeProto] = {attribute.name: attribute for attribute in proto.attribute}

    def reading(self, inputs: Sequence[Value | None]) -> OnnxNode:
        """The same node with other operands."""
        return OnnxNode(self.proto, self.name, self.version, inputs, self._known)

    def has(self, attribute: str) -> bool:
        """Whether the attribute is given."""
        return attribute in self._attributes

    def integer(self, attribute: str, default: int) -> int:
        """A 64-bit integer; `default` if it is not given."""
        return int(self._attributes[attribute].i) if self.has(attribute) else default

    def flag(self, attribute: str, *, default: bool) -> bool:
        """An integer attribute that is 0 or 1. Raises Fault for another number."""
        number = self.integer(attribute, int(default))
        if number not in (0, 1):
            raise Fault(f"attribute {attribute!r} must be 0 or 1, got {number}")
        return bool(number)

    def number(self, attribute: str, default: float) -> float:
        """A float, which has f32's digits, and may be infinite or NaN; `default` if it is not given."""
        return float(self._attributes[attribute].f) if self.has(attribute) else default

    def floats(self, attribute: str) -> Array | None:
        """A list of floats as f32[n], or None if it is not given."""
        return np.array(self._attributes[attribute].floats, np.float32) if self.has(attribute) else None

    def text(self, attribute: str, default: str) -> str:
        """A text, with U+FFFD for bytes that are not UTF-8; `default` if it is not given."""
        return self._attributes[attribute].s.decode("utf-8", "replace") if self.has(attribute) else default

    def texts(self, attribute: str) -> tuple[str, ...] | None:
        """A list of texts, or None if it is not given."""
        if not self.has(attribute):
            return None
        return tuple(text.decode("utf-8", "replace") for text in self._attributes[attribute].strings)

    def choice(self, attribute: str, default: str, *allowed: str) -> str:
        """A text attribute that must be one of `allowed`. Raises Fault for another text."""
        text = self.text(attribute, default)
        if text not in allowed:
            raise Fault(f"attribute {attribute!r} must be one of {', '.join(allowed)}, got {text!r}")
        return text

    def integers(self, attribute: str) -> tuple[int, ...] | None:
        """A list of integers, empty where the model has an empty one; None if it is not given."""
        return tuple(int(i) for i in self._attributes[attribute].ints) if self.has(attribute) else None

    def tensor(self, attribute: str) -> Array | None:
        """A tensor attribute's array, or None if it is not given."""
        return to_array(self._attributes[attribute].t, _NO_FILES) if self.has(attribute) else None

    def attribute(self, name: str) -> AttributeProto | None:
        """The attribute as it stands in the model."""
        return self._attributes.get(name)

    def input(self, index: int) -> Value:
        """Operand `index`. Raises Fault if it is absent."""
        value = self.optional(index)
        if value is None:
            raise Fault(f"its input number {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """Operand `index`, or None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def dtype(self, index: int = 0) -> DType | None:
        """The dtype of operand `index`, or None if it is not known."""
        return self.input(index).dtype

    def dims(self, index: int = 0) -> Dims | None:
        """The dimensions of operand `index`, None for unknown ones; None if its rank is not known."""
        return self._known.dims(self.input(index))

    def rank(self, index: int = 0) -> int | None:
        """The rank of operand `index`, or None if it is not known."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def axis(self, axis: int, index: int = 0) -> int:
        """`axis` of operand `index` counted from the front where its rank is known, else as it is.

        Raises Fault if it is out of range.
        """
        rank = self.rank(index)
        if rank is None:
            return axis
        try:
            return normalize_axis(axis, rank)
        except ShapeError as error:
            raise Fault(str(error)) from None

    def axes(self, axes: Sequence[int], index: int = 0) -> tuple[int, ...]:
        """`axis` for each of `axes`."""
        return tuple(self.axis(axis, index) for axis in axes)

    def array(self, index: int) -> Array | None:
        """The elements of operand `index` if it is present and known already."""
        value = self.optional(index)
        return None if value is None else self._known.array(value)

    def numbers(self, index: int) -> tuple[int, ...] | None:
        """The elements of the integer operand `index` if it is present and known already."""
        array = self.array(index)
        if array is None:
            return None
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise Fault(f"its input number {index} must be a list of integers, got {array.dtype}{list(array.shape)}")
        if array.size > 1 << 16:
            raise LimitError(f"node {self.name!r} ({self.op}) has an operand with {array.size} axes or sizes")
        return tuple(int(number) for number in array.reshape(-1))
