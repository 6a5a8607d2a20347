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
    found = infos_for_all_sizes(graph, values, CaseAnalysis())
    return {
        value: Info(value.known_dtype, value.static_shape if is_known(value) else info.shape)
        for value, info in zip(values, found, strict=True)
    }


def infos_for_all_sizes(graph: Graph, values: Sequence[Value], facts: CaseAnalysis) -> list[Info]:
    """What is certain of `values` of `graph`, with symbols of `facts` for all sizes that are no numbers."""
    found: dict[Value, Info] = {}
    symbols: dict[int, int] = {}

    def size(dim: int) -> int:
        if is_expression(dim) and id(dim) not in symbols:
            symbols[id(dim)] = facts.unknown()
        return symbols.get(id(dim), dim)

    def info(value: Value | None) -> Info | None:
        if value is None or value in found:
            return None if value is None else found[value]
        return Info(value.known_dtype, tuple(map(size, value.static_shape)), value.data)

    for node in graph.nodes:
        if all(map(is_known, node.outputs)):
            continue
        try:
            infos = certain_infos(node, list(map(info, node.inputs)), facts, _DEEP)
        except TreadleError:
            infos = []
        infos = infos or [Info(value.known_dtype, None) for value in node.outputs]
        found.update(zip(node.outputs, infos, strict=True))
    return [known for value in values if (known := info(value)) is not None]
