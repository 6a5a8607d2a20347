"""What is certain of the shapes of values that depend on data."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import TreadleError
from treadle.frontends.core_bodies import is_known
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.certain import certain_infos
from treadle.ops.op import Info

_DEEP = 2
"""In how many bodies inside one another each node is inferred for itself."""


def certain_forms(graph: Graph, values: Sequence[Value]) -> dict[Value, Info]:
    """What is certain of `values` of `graph`; what was known before has its own sizes."""
    facts = CaseAnalysis()
    found: dict[Value, Info] = {}

    def info(value: Value | None) -> Info | None:
        if value is None or value in found:
            return None if value is None else found[value]
        shape = tuple(facts.unknown() if is_expression(dim) else dim for dim in value.static_shape)
        return Info(value.known_dtype, shape, value.data)

    for node in graph.nodes:
        if all(map(is_known, node.outputs)):
            continue
        try:
            infos = certain_infos(node, list(map(info, node.inputs)), facts, _DEEP)
        except TreadleError:
            infos = []
        infos = infos or [Info(value.known_dtype, None) for value in node.outputs]
        found.update(zip(node.outputs, infos, strict=True))
    return {
        value: Info(value.known_dtype, value.static_shape if is_known(value) else found[value].shape)
        for value in values
    }
