"""What only ONNX Runtime has operators for, those of com.microsoft."""

from __future__ import annotations

from treadle.frontends.onnx.microsoft import DOMAIN
from treadle.frontends.onnx.writing.tensors import Write
from treadle.frontends.onnx.writing.writer import Writer, optional
from treadle.graph.node import Node

_RULES = {(False, False): "linear", (True, False): "gated", (False, True): "delta", (True, True): "gated_delta"}
"""Whether states are multiplied by factors, and whether there are rates -> the rule by which tokens change them."""


def _inverse(node: Node, w: Writer) -> None:
    w.emit("Inverse", [w.name(node.operand(0))], [w.name(node.output)], DOMAIN)


def _linear_attention(node: Node, w: Writer) -> None:
    given = [optional(node, index) for index in range(6)]
    names = ["" if value is None else w.name(value) for value in given]
    if names[4]:
        names[4] = w.emit("Log", [names[4]])
    w.emit(
        "LinearAttention",
        names,
        [w.name(value) for value in node.outputs],
        DOMAIN,
        q_num_heads=node.attrs["heads"],
        kv_num_heads=node.attrs["shared"],
        scale=1.0,
        update_rule=_RULES[bool(names[4]), bool(names[5])],
    )


MICROSOFT: dict[str, Write] = {"inverse": _inverse, "linear_attention": _linear_attention}
"""Core op -> the function that writes a node of it."""
