"""Walks an ONNX graph in order, calling one function of a library for each node.

The arithmetic of shapes and masks that is known before the run is done once, with the `onnx` reference, as every one
of these libraries would fold it; the rest becomes calls of the library, which traces and compiles them.
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
    """A node that runs in the library. `operands` are names, or arrays that were known before; None: left out."""

    op: str
    attributes: dict[str, Any]
    operands: tuple[str | Array | None, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """The inputs, steps and outputs of a graph; a step with several results is a function that gives a sequence."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    def has(self, op: str) -> bool:
        return any(step.op == op for step in self.steps)

    def constants(self) -> list[Array]:
        return [operand for step in self.steps for operand in step.operands if isinstance(operand, np.ndarray)]

    def run(self, ops: Mapping[str, Callable[..., Any]], inputs: list[Any], as_constant: Callable[[Array], Any]) -> Any:
        """The outputs, by the functions `ops`, each called with the operands and the ONNX attributes by name.

        Integer constants stay NumPy arrays (they are shapes, axes and indices), others go through `as_constant`.
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
    """Read the ONNX file `path` and fold what does not depend on its inputs."""
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
