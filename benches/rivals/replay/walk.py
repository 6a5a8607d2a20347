"""Walks an ONNX graph in order and calls one function of a library for each node.

Shape arithmetic and masks that do not depend on inputs are computed once with the `onnx` reference, as each of these
libraries would fold them. The other nodes become calls of the library, which traces and compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

FOLDED = {"Cast", "Constant", "ConstantOfShape", "Equal", "Expand", "Identity", "Mul", "Reshape", "Where"}


@dataclass(frozen=True, slots=True)
class Step:
    """A node that the library runs. An operand is a name, a folded array, or None if it is left out."""

    op: str
    attributes: dict[str, Any]
    operands: tuple[str | Array | None, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """The inputs, steps and outputs of a graph; the function of a step with several results returns a sequence."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    def has(self, op: str) -> bool:
        return any(step.op == op for step in self.steps)

    def constants(self) -> list[Array]:
        return [operand for step in self.steps for operand in step.operands if isinstance(operand, np.ndarray)]

    def run(self, ops: Mapping[str, Callable[..., Any]], inputs: list[Any], as_constant: Callable[[Array], Any]) -> Any:
        """Returns the outputs, computed by the functions `ops` from operands and ONNX attributes (by name).

        Integer constants stay NumPy arrays, because they are shapes, axes and indices; `as_constant` converts others.
        """
        values: dict[str, Any] = dict(zip(self.inputs, inputs, strict=True))

        def operand(source: str | Array | None) -> Any:
            if source is None or isinstance(source, str):
                return None if source is None else values[source]
            return source if np.issubdtype(source.dtype, np.integer) else as_constant(source)

        for step in self.steps:
            given = ops[step.op](*(operand(source) for source in step.operands), **step.attributes)
            values.update(zip(step.results, given if len(step.results) > 1 else [given], strict=True))
        return [values[name] for name in self.outputs]


def walk(path: str) -> Walk:
    """Reads the ONNX file `path` and folds the nodes that do not depend on its inputs."""
    graph = onnx.load(path).graph
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    inputs = tuple(value.name for value in graph.input if value.name not in known)
    steps = []
    for node in graph.node:
        names = [name or None for name in node.input]
        if node.op_type in FOLDED and all(name is None or name in known for name in names):
            results: Any = ReferenceEvaluator(node).run(None, {name: known[name] for name in names if name})
            known.update(zip(node.output, results, strict=True))
            continue
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        operands = tuple(known.get(name, name) if name else None for name in names)
        steps.append(Step(node.op_type, attributes, operands, tuple(node.output)))
    return Walk(inputs, tuple(steps), tuple(value.name for value in graph.output))
