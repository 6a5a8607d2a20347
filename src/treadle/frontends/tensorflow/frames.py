"""Loops of TensorFlow 1, to which TensorFlow 2 lowers its own when it freezes them: each frame becomes one node.

In a frame each variable enters (Enter), is merged with its value from the previous iteration (Merge, NextIteration),
and goes on to the next iteration or leaves (Switch on LoopCond, Exit). Values that stay the same enter with
is_constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.body import SWITCHES, Body
from treadle.frontends.tensorflow.node import Node, Ref

FRAME = "_Frame"
"""The op that replaces a frame.

Its inputs are the initial values of its variables, then the values that stay the same.
"""

_ENTERS = ("Enter", "RefEnter")
_EXITS = ("Exit", "RefExit")
_NEXTS = ("NextIteration", "RefNextIteration")


@dataclass(frozen=True, slots=True)
class Frame:
    """A loop.

    `tested` and `stepped` are the tensors by which its test and its step read the variables, then the values that stay
    the same. `test` is the predicate; `results` are the next values of the variables, with element types `dtypes`.
    """

    tested: list[Ref]
    stepped: list[Ref]
    test: Ref
    results: list[Ref]
    dtypes: list[DType]


def without_frames(body: Body) -> Body:
    """Return `body` with each loop of TensorFlow 1 as one node, described by its attribute `frame`. Raises Fault."""
    enters: dict[str, list[Node]] = {}
    for node in body.nodes.values():
        if node.op in _ENTERS:
            enters.setdefault(str(node.attr("frame_name", "")), []).append(node)
    if not enters:
        return body
    plain = Body(dict(body.nodes), body.arguments, list(body.results), dict(body.aliases))
    readers: dict[Ref, list[Node]] = {}
    for node in body.nodes.values():
        for ref in node.inputs:
            readers.setdefault(ref, []).append(node)
    for name, found in enters.items():
        _replace(name, found, body, plain, readers)
    plain.resolve_aliases()
    return plain


def _replace(name: str, enters: list[Node], body: Body, plain: Body, readers: dict[Ref, list[Node]]) -> None:
    """Replace the frame of the nodes `enters` by one node."""
    fixed = [node for node in enters if node.attr("is_constant", False)]
    variables = [node for node in enters if node not in fixed]
    merges = [_reader_among(readers, (enter.name, 0), ("Merge",), name) for enter in variables]
    switches = [_reader_among(readers, (merge.name, 0), SWITCHES, name) for merge in merges]
    nexts = [_next_iteration(merge, body, name) for merge in merges]
    conditions = {node.inputs[1][0] for node in switches}
    loop_condition = body.nodes.get(conditions.pop()) if len(conditions) == 1 else None
    if loop_condition is None or loop_condition.op != "LoopCond" or not loop_condition.inputs:
        raise Fault(f"the loop {name!r} has no LoopCond of its own")
    same = [(node.name, 0) for node in fixed]
    frame = Frame(
        [*((merge.name, 0) for merge in merges), *same],
        [*((switch.name, 1) for switch in switches), *same],
        loop_condition.inputs[0],
        [node.inputs[0] for node in nexts],
        [node.dtype("T") for node in variables],
    )
    made = f"{name or 'loop'}/frame"
    inputs = [node.inputs[0] for node in (*variables, *fixed)]
    plain.nodes[made] = Node(made, FRAME, inputs, [], {"frame": frame, "T": frame.dtypes})
    for index, switch in enumerate(switches):
        for node in readers.get((switch.name, 0), ()):
            if node.op in _EXITS:
                plain.aliases[node.name, 0] = (made, index)
                plain.nodes.pop(node.name, None)
    for node in (*enters, *merges, *switches, *nexts, loop_condition):
        plain.nodes.pop(node.name, None)


def resolve_frame_aliases(body: Body) -> Body:
    """Replace aliases inside the frames of `body`. Raises Fault if they form a circle."""
    for node in body.nodes.values():
        if node.op == FRAME:
            frame: Frame = node.attr("frame")
            test, *results = (body.resolved(ref) for ref in (frame.test, *frame.results))
            node.attrs = {**node.attrs, "frame": replace(frame, test=test, results=results)}
    return body


def _reader_among(readers: dict[Ref, list[Node]], ref: Ref, ops: tuple[str, ...], name: str) -> Node:
    """Return the reader of `ref` whose op is one of `ops`. Raises Fault if there is none."""
    found = [
        node for node in readers.get(ref, ()) if node.op in ops and node.inputs[0] == ref and len(node.inputs) == 2
    ]
    if not found:
        raise Fault(f"the loop {name!r} has no {ops[0]} for {ref[0]!r}")
    return found[0]


def _next_iteration(merge: Node, body: Body, name: str) -> Node:
    """Return the NextIteration node of a variable. Raises Fault if there is none."""
    node = body.nodes.get(merge.inputs[1][0])
    if node is None or node.op not in _NEXTS or not node.inputs:
        raise Fault(f"the loop {name!r} has no NextIteration for {merge.name!r}")
    return node


def frame_parts(node: Node) -> Iterator[tuple[list[Ref], dict[Ref, None]]]:
    """Yield, for the test and the step of a frame, what each computes and what it is given."""
    frame: Frame = node.attr("frame")
    yield [frame.test], dict.fromkeys(frame.tested)
    yield frame.results, dict.fromkeys(frame.stepped)
