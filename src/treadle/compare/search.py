"""Finds the first node of a model whose values part from those of another engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.compare.difference import Difference, difference
from treadle.graph.graph import Graph
from treadle.graph.value import Value

TOLERANCES = {"f64": 1e-9, "f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}
"""The largest error at which numbers of a dtype agree by default, as a share of the largest magnitude in the array.

About 1,000 roundings of an f32, 10 of an f16, 12 of a bf16: sums of a few thousand products in any order stay below."""

Values = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Compared:
    """A value that both engines compute.

    Attributes:
        value: Its name.
        node: The node that computes it; empty for an input or a constant that the model returns.
        op: The op of that node.
        difference: How far the engines are apart.
    """

    value: str
    node: str
    op: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """What both engines gave.

    Attributes:
        outputs: The outputs of the model, compiled as users run it.
        values: Every value that both engines compute, each node for itself, in the order of the graph.
        fused: The first value that parts only where its node and those before are compiled together, as ops are then
            fused; None unless an output parts though no value of `values` does.
    """

    outputs: tuple[Compared, ...]
    values: tuple[Compared, ...]
    fused: Compared | None

    @property
    def first(self) -> Compared | None:
        """The first value that parts; None if all agree."""
        return next((each for each in (*self.values, self.fused) if each is not None and each.difference.parts), None)

    @property
    def parts(self) -> bool:
        """True if an output or any value parts."""
        return self.first is not None or any(each.difference.parts for each in self.outputs)


def compare(
    graph: Graph,
    outputs: Values,
    wanted: Values,
    compute: Callable[[Sequence[str]], Values],
    tolerance: float | None = None,
) -> Comparison:
    """Compare the values of `graph` with those `wanted`.

    Args:
        graph: The model.
        outputs: Its outputs, compiled as users run it.
        wanted: What the other engine computed, by name. Values that it lacks are not compared.
        compute: Computes the values with these names; ops are fused only where no name lies between them.
        tolerance: The error at which floats agree. None: the largest of TOLERANCES among a value and all that it is
            computed from.
    """
    allowed = tolerances(graph) if tolerance is None else {}
    makers = {value.name: node for node in graph.nodes for value in node.outputs}

    def compared(name: str, got: Values) -> Compared:
        node = makers.get(name)
        found = difference(got[name], wanted[name], allowed.get(name, tolerance or 0.0))
        return Compared(name, node.name if node else "", node.op if node else "", found)

    tensors = (name for name, value in outputs.items() if isinstance(value, np.ndarray))
    as_run = tuple(compared(name, outputs) for name in tensors if name in wanted)
    names = [name for name in makers if name in wanted]
    apart = compute(names) if names else {}
    values = tuple(compared(name, apart) for name in names)
    fused = None
    if any(each.difference.parts for each in as_run) and not any(each.difference.parts for each in values):
        fused = _first_fused(names, lambda name: compared(name, compute([name])))
    return Comparison(as_run, values, fused)


def tolerances(graph: Graph) -> dict[str, float]:
    """Return the error at which each value agrees: the largest of TOLERANCES among it and what it is computed from."""
    found: dict[str, float] = {}

    def known(value: Value) -> float:
        return found.get(value.name, TOLERANCES.get(value.dtype.name, 0.0) if value.dtype is not None else 0.0)

    for value in graph.inputs:
        found[value.name] = known(value)
    for node in graph.nodes:
        read = max((known(value) for value in node.inputs if value is not None), default=0.0)
        found.update((value.name, max(read, known(value))) for value in node.outputs)
    return found


def _first_fused(names: Sequence[str], compared: Callable[[str], Compared]) -> Compared | None:
    """Return the first value that parts when only it is asked for; by halves, as what follows it mostly parts too."""
    found = None
    low, high = 0, len(names)
    while low < high:
        middle = (low + high) // 2
        each = compared(names[middle])
        if each.difference.parts:
            found, high = each, middle
        else:
            low = middle + 1
    return found
