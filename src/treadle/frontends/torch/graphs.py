"""Graphs in the making: their inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.template import Form
from treadle.graph.value import Value


def start_graph(
    name: str, inputs: Sequence[Value], outputs: Sequence[Value], forms: Sequence[Form]
) -> tuple[Graph, list[Value]]:
    """Returns a graph with inputs of these dtypes and shapes, and their values; the outputs' names are reserved."""
    graph = Graph(name)
    given = [graph.input(value.name, *form) for value, form in zip(inputs, forms, strict=True)]
    for value in outputs:
        graph.unique_name(value.name)
    return graph, given


def add_outputs(importer: Importer, names: Sequence[str], results: Sequence[Any]) -> None:
    """Makes `results` the outputs of the graph, called `names`."""
    b = importer.b
    for name, result in zip(names, results, strict=True):
        b.name = name

        def made(result: Any = result) -> Value:
            if isinstance(result, Box):
                return result.read()
            if isinstance(result, Number):
                return result.value
            if isinstance(result, bool | int | float) or is_expression(result):
                return b.number(result)
            raise Unsupported(f"it returns a {type(result).__name__}; treadle returns tensors and numbers")

        value = importer.attempt(f"output {name!r}", made)
        if isinstance(value, Value):
            output = Value(name, value.dtype, value.shape)
            b.graph.outputs.append(b.graph.add("identity", [value], name=name, outputs=[output]).output)
