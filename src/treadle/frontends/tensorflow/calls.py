"""Nodes that run Python functions: control flow, and ops that have no core op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dtypes import DType
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.node import Node
from treadle.graph.graph import link
from treadle.graph.value import Value


def add_call(e: Emitter, node: Node, values: Sequence[Value], function: Any, dtypes: Sequence[DType]) -> list[Value]:
    """Add a step that runs `function` and return its results, which have these dtypes and unknown shapes."""
    results = [e.graph.value(node.name, dtype) for dtype in dtypes]
    attrs = {"function": function, "infer": None, "blocking": False, "label": node.op}
    made = e.graph.make("call", values, attrs, name=node.name, outputs=results)
    e.graph.nodes.append(made)
    link(made)
    return results
