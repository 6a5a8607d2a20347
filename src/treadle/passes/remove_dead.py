"""Removes what no output depends on."""

from treadle.graph.graph import Graph
from treadle.passes.base import PassContext
from treadle.passes.match import drop_dead


class RemoveDead:
    """%a = relu(%x); %b = exp(%x); return %b  ->  %b = exp(%x); return %b"""

    name = "remove_dead"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return drop_dead(graph)
