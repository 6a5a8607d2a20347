"""Removes what no output depends on."""

from treadle.graph.graph import Graph
from treadle.passes.base import PassContext


class RemoveDead:
    """%a = relu(%x); %b = exp(%x); return %b  ->  %b = exp(%x); return %b"""

    name = "remove_dead"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return graph.drop_unread()
