"""What is certain of the shapes of a graph whose sizes only data tells, without sample sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.errors import TreadleError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.certain import certain_infos
from treadle.ops.op import Info
from treadle.passes.specialize import copy_graph, numbers_of, reals_of, set_numbers


def certain_shapes(graph: Graph) -> list[Sequence[int]] | None:
    """Return the shapes of the outputs of `graph`: numbers, and expressions for what may be any size.

    None if a rank is not certain. The inputs of `graph` have shapes, in which names stand for unknown sizes.
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
    return [info(value).shape or () for value in copy.outputs]
