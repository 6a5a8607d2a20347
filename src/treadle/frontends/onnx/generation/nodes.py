"""Writes the nodes of ai.onnx that a search consists of."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Nodes:
    """Writes nodes whose results have names of their own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.nodes: list[onnx.NodeProto] = []

    def name(self, of: str) -> str:
        return f"{self._prefix}/{of}"

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.add_many(kind, inputs, 1, domain=domain, **attributes)[0]

    def add_many(
        self, kind: str, inputs: tuple[str, ...], count: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        name = self.name(f"{kind.lower()}{len(self.nodes)}")
        names = [name, *(f"{name}.{number}" for number in range(1, count))]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, domain=domain, **attributes))
        return names

    def called(self, value: str, name: str) -> None:
        """Give `value` this name, too."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=self.name(name)))

    def constant(self, value: object, dtype: type[np.generic] = np.int64) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def cast(self, value: str, to: int) -> str:
        return self.add("Cast", value, to=to)

    def filled(self, shape: str, value: object, dtype: type[np.generic]) -> str:
        """A tensor of this shape, each element `value`."""
        return self.add("ConstantOfShape", shape, value=numpy_helper.from_array(np.asarray([value], dtype)))

    def size(self, x: str, axis: int) -> str:
        """The size of one axis, i64 [1]."""
        return self.add("Shape", x, start=axis, end=axis + 1)

    def numbers(self, count: str) -> str:
        """0 to `count` - 1, i64 [1], as i64 [count]."""
        end = self.add("Squeeze", count, self.constant([0]))
        return self.add("Range", self.constant(0), end, self.constant(1))

    def required(self, value: str, condition: str, that: str) -> str:
        """`value`, i64 [1]; the run fails at a node named `that` where the `condition`, bool [1], does not hold."""
        missing = self.cast(self.add("Not", condition), onnx.TensorProto.INT64)
        place = self.name(that)
        self.nodes.append(helper.make_node("Gather", [self.constant([0]), missing], [place], name=place, axis=0))
        return self.add("Add", value, place)
