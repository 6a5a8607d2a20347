"""What is certain of the shapes of a graph whose sizes only data tells, without sample sizes."""

from __future__ import annotations

import math

from treadle.errors import TreadleError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape
from treadle.ops.certain import certain_body
from treadle.ops.op import Info
from treadle.passes.specialize import copy_graph, numbers_of, reals_of, set_numbers
from treadle.records import dataclass

_DEEP = 4
"""In how many graphs inside one another, the outermost one included, each node is inferred for itself."""


@dataclass(frozen=True, slots=True)
class CertainShapes:
    """The shapes of the inputs and outputs of a graph: numbers, and expressions for what may be any size."""

    inputs: list[StaticShape]
    outputs: list[StaticShape]


def certain_shapes(graph: Graph) -> CertainShapes | None:
    """Return what is certain of the shapes of `graph`, whose inputs have some, in which names stand for unknown sizes.

    None if a rank is not certain.
    """
    facts = CaseAnalysis()
    copy = copy_graph(graph)
    reals = reals_of(graph)
    numbers = {
        name: facts.symbol(name, 1, least=-math.inf, most=math.inf) if name in reals else facts.unknown_integer()
        for name in numbers_of(graph)
    }
    names = {dim for value in graph.inputs for dim in value.shape or () if isinstance(dim, str)}
    sizes = {name: facts.unknown() for name in names}
    set_numbers(copy, {**sizes, **numbers})
    shapes = [tuple(sizes[dim] if isinstance(dim, str) else dim for dim in value.shape or ()) for value in copy.inputs]
    operands = [Info(value.known_dtype, shape) for value, shape in zip(copy.inputs, shapes, strict=True)]
    try:
        found = certain_body(copy, operands, facts, _DEEP)
    except TreadleError:
        return None
    outputs = [info.shape for info in found if info.shape is not None]
    return CertainShapes(shapes, outputs) if len(outputs) == len(copy.outputs) else None
