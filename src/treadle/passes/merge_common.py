"""Merges equal nodes and equal constants (common subexpressions)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from treadle.graph.graph import Graph, unlink
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext

_COMPARED_BYTES = 1 << 16
"""Larger constants are the same only if they share their memory: comparing weights costs more than it saves."""


class MergeCommon:
    """%a = relu(%x); %b = relu(%x); %c = add(%a, %b)  ->  %a = relu(%x); %c = add(%a, %a)

    Nodes with a function of their own (`call`) are never merged, nor nodes that make a graph output.
    """

    name = "merge_common"

    def run(self, graph: Graph, context: PassContext) -> bool:
        """True if nodes or constants were merged."""
        changed = _merge_constants(graph)
        outputs = {id(value) for value in graph.outputs}
        seen: dict[Hashable, Node] = {}
        kept: list[Node] = []
        for node in graph.nodes:
            key = _key(node)
            first = None if key is None else seen.setdefault(key, node)
            if first is None or first is node or any(id(value) in outputs for value in node.outputs):
                kept.append(node)
                continue
            first.take_over([first, node])
            for old, new in zip(node.outputs, first.outputs, strict=True):
                graph.replace_uses(old, new)
            unlink(node)
        if len(kept) < len(graph.nodes):
            graph.nodes = kept
            changed = True
        return changed


def _merge_constants(graph: Graph) -> bool:
    first: dict[Hashable, Value] = {}
    changed = False
    for value in list(graph.constants()):
        data = value.data
        assert data is not None
        if data.dtype == object or graph.is_output(value):
            continue
        same = data.tobytes() if data.nbytes <= _COMPARED_BYTES else (data.__array_interface__["data"], data.strides)
        kept = first.setdefault((value.dtype, data.shape, same), value)
        if kept is not value:
            graph.replace_uses(value, kept)
            changed = True
    return changed


def _key(node: Node) -> Hashable | None:
    if node.op in ("call", "data_stage"):
        return None
    attrs = tuple((name, _hashable(node.attrs[name])) for name in sorted(node.attrs))
    return node.op, tuple(id(value) for value in node.inputs), len(node.outputs), attrs


def _hashable(attribute: Any) -> Hashable:
    if isinstance(attribute, np.ndarray):
        return attribute.dtype.str, attribute.shape, attribute.tobytes()
    if isinstance(attribute, list | tuple):
        return tuple(_hashable(part) for part in attribute)
    return type(attribute), attribute
