"""TensorArrays of TensorFlow 1 as lists of tensors.

In files a TensorArray has a handle, which stands for the array, and a flow, a number that orders the operations on it.
After this transformation the flow carries the list itself, and the handle is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.body import Body
from treadle.frontends.tensorflow.node import Node, Ref

_INPUT_COUNTS = {
    "TensorArrayConcatV3": 2, "TensorArrayGatherV3": 3, "TensorArrayReadV3": 3, "TensorArrayScatterV3": 4,
    "TensorArraySizeV3": 2, "TensorArraySplitV3": 4, "TensorArrayWriteV3": 4,
}  # fmt: skip
"""Number of inputs of the ops whose first input is the handle and whose last input is the flow."""

_WRITES = ("TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayWriteV3")
_FORWARDING = (
    "Identity", "Enter", "RefEnter", "Merge", "RefMerge", "Switch", "RefSwitch", "Exit", "RefExit", "NextIteration",
    "RefNextIteration",
)  # fmt: skip
"""Ops that forward a flow unchanged."""


def arrays_as_lists(body: Body) -> Body:
    """Return `body` with lists in place of flows. Raises Fault for a TensorArray op with a wrong number of inputs."""
    if not any(node.op == "TensorArrayV3" or node.op in _INPUT_COUNTS for node in body.nodes.values()):
        return body
    plain = Body({}, body.arguments, list(body.results), dict(body.aliases))
    for node in body.nodes.values():
        count = _INPUT_COUNTS.get(node.op)
        if count is not None and len(node.inputs) != count:
            raise Fault(f"{node.place}: wanted {count} inputs, got {len(node.inputs)}")
        reads = node.inputs if count is None else [node.inputs[-1], *node.inputs[1:-1]]
        plain.nodes[node.name] = Node(node.name, node.op, list(reads), node.controls, node.attrs)
    for name in _forwarding_nodes(plain):
        node = plain.nodes[name]
        attrs: Mapping[str, Any] = {**node.attrs, "T": dtypes.string}
        plain.nodes[name] = Node(name, node.op, node.inputs, node.controls, attrs)
    return plain


def _forwarding_nodes(body: Body) -> set[str]:
    """Return the names of the nodes that forward a list."""
    readers: dict[str, list[Node]] = {}
    for node in body.nodes.values():
        for name in {name for name, _ in node.inputs[:2]}:
            readers.setdefault(name, []).append(node)
    forwarding: set[str] = set()
    pending = [node.name for node in body.nodes.values() if node.op == "TensorArrayV3" or node.op in _WRITES]
    while pending:
        source = pending.pop()
        for reader in readers.get(source, ()):
            read = reader.inputs if reader.op in ("Merge", "RefMerge") else reader.inputs[:1]
            if (
                reader.op in _FORWARDING
                and reader.name not in forwarding
                and any(_is_list(ref, source, body) for ref in read)
            ):
                forwarding.add(reader.name)
                pending.append(reader.name)
    return forwarding


def _is_list(ref: Ref, source: str, body: Body) -> bool:
    """Return whether `ref` is a list that the node `source` returns. The second result of a Merge is a number."""
    return ref[0] == source and (ref[1] == 0 or body.nodes[source].op not in ("Merge", "RefMerge"))
