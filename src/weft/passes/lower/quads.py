"""Which products of 8-bit numbers a kernel multiplies in groups of four: quads."""

from __future__ import annotations

from weft.graph.node import Node
from weft.plan.target import Target


def multiplies_quads(node: Node, target: Target) -> bool:
    """Whether a kernel multiplies the 8-bit factors of `node`, a conv or matmul."""
    return False
