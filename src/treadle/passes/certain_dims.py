"""What is certain of the shapes of a graph whose sizes only data tells, without sample sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from treadle.errors import TreadleError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.ops.certain import certain_infos
from treadle.ops.op import Info
from treadle.passes.specialize import copy_graph, numbers_of, reals_of, set_numbers


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
    infos: dict[Value, Info] = {}
    for value in copy.inputs:
        shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in value.shape or ())
        infos[value] = Info(value.known_dtype, shape)

    def info(value: Value) -> Info:
        return infos[value] if value.data is None else Info(value.known_dtype, value.data.shape, value.data)

    try:
        for node in copy.nodes:
            found = certain_infos(node, [None if value is None else info(value) for value in node.inputs], facts)
            if not found or any(each.shape is None for each in found):
                return None
            infos.update(zip(node.outputs, found, strict=True))
    except TreadleError:
        return None
    inputs, outputs = ([info(value).shape or () for value in values] for values in (copy.inputs, copy.outputs))
    return CertainShapes(inputs, outputs)
