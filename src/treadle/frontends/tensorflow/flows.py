"""TensorArrays of TensorFlow 1, made lists: in files they have a handle, which is the array, and a flow, a number that orders
what is done to it. Here the flow is the list, and its handle is read no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.body import Body
from treadle.frontends.tensorflow.node import Node, Ref

_FLOW_LAST = {
    "TensorArrayConcatV3": 2, "TensorArrayGatherV3": 3, "TensorArrayReadV3": 3, "TensorArrayScatterV3": 4,
    "TensorArraySizeV3": 2, "TensorArraySplitV3": 4, "TensorArrayWriteV3": 4,
}  # fmt: skip
"""Ops whose first input is the handle and whose last one is the flow, and how many inputs they have."""

_CHANGES = ("TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayWriteV3")
_PASSES = (
    "Identity", "Enter", "RefEnter", "Merge", "RefMerge", "Switch", "RefSwitch", "Exit", "RefExit", "NextIteration",
    "RefNextIteration",
)  # fmt: skip
"""Ops through which a flow goes as it is."""


def with_lists(body: Body) -> Body:
    """`body` with lists in place of flows. Raises Fault for an op of TensorArrays that has a wrong number of inputs."""
    if not any(node.op == "TensorArrayV3" or node.op in _FLOW_LAST for node in body.nodes.values()):
        return body
    plain = Body({}, body.arguments, list(body.results), dict(body.aliases))
    for node in body.nodes.values():
        count = _FLOW_LAST.get(node.op)
        if count is not None and len(node.inputs) != count:
            raise Fault(f"{node.place}: wanted {count} inputs, got {len(node.inputs)}")
        reads = node.inputs if count is None else [node.inputs[-1], *node.inputs[1:-1]]
        plain.nodes[node.name] = Node(node.name, node.op, list(reads), node.controls, node.attrs)
    for name in _through(plain):
        node = plain.nodes[name]
        attrs: Mapping[str, Any] = {**node.attrs, "T": dtypes.string}
        plain.nodes[name] = Node(name, node.op, node.inputs, node.controls, attrs)
    return plain


def _through(body: Body) -> set[str]:
    """The nodes through which lists go as they are."""
    readers: dict[str, list[Node]] = {}
    for node in body.nodes.values():
        for name in {name for name, _ in node.inputs[:2]}:
            readers.setdefault(name, []).append(node)
    found: set[str] = set()
    open_ = [node.name for node in body.nodes.values() if node.op == "TensorArrayV3" or node.op in _CHANGES]
    while open_:
        made = open_.pop()
        for reader in readers.get(made, ()):
            read = reader.inputs if reader.op in ("Merge", "RefMerge") else reader.inputs[:1]
            if reader.op in _PASSES and reader.name not in found and any(_first(ref, made, body) for ref in read):
                found.add(reader.name)
                open_.append(reader.name)
    return found


def _first(ref: Ref, made: str, body: Body) -> bool:
    """Whether `ref` is a list that the node `made` gives: the second result of a Merge is a number."""
    return ref[0] == made and (ref[1] == 0 or body.nodes[made].op not in ("Merge", "RefMerge"))
