"""Branches of TensorFlow 1: Switch and Merge nodes become nodes that compute only the side that is taken.

A Switch sends its input to one of two sides, and a Merge forwards the value of the side that was taken. Where the
predicate is a constant (a frozen learning phase), only that side remains. Elsewhere the Merges of a branch become one
node, which runs the nodes on one side of the predicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.tensorflow.body import SWITCHES, Body, constant_predicate, sorted_nodes
from treadle.frontends.tensorflow.node import Node, Ref

SIDES = "_Sides"
"""The op that replaces the Merges of a branch. Its inputs are the predicate and the tensors that either side reads. Its
attribute `sides` holds the tensors that the branch computes where the predicate is false, and where it is true.
"""

PathConditions = frozenset[tuple[Ref, int]]
"""The predicates, each with 0 or 1, under which a tensor exists."""


def without_switches(body: Body) -> Body:
    """Return `body` with its Switch and Merge nodes replaced. Raises Fault where they do not form branches."""
    if not any(node.op in SWITCHES or node.op in MERGES for node in body.nodes.values()):
        return body
    plain = Body(dict(body.nodes), body.arguments, list(body.results), dict(body.aliases))
    conditions: dict[str, PathConditions] = {}
    branches = _Branches()
    for node in sorted_nodes([_with_controls(node) for node in body.nodes.values()], {}):
        original = body.nodes[node.name]
        input_conditions = _input_conditions(original, body, conditions)
        if original.op in MERGES:
            input_conditions = _replace_merge(original, plain, body, input_conditions, branches)
        elif original.op in SWITCHES:
            data = original.inputs[:1]
            plain.aliases.update(((node.name, side), ref) for side in (0, 1) for ref in data)
            del plain.nodes[node.name]
        conditions[node.name] = frozenset[tuple[Ref, int]]().union(*input_conditions)
        branches.record_node(node, original.op in MERGES)
    for branch in branches.found:
        plain.nodes[branch.name] = branch.node()
        conditions[branch.name] = branch.conditions
    plain.resolve_aliases()
    for branch in branches.found:
        _set_inputs(plain.nodes[branch.name], branch.predicate, plain, conditions)
    return plain


MERGES = ("Merge", "RefMerge")


def _with_controls(node: Node) -> Node:
    """Return the node with its control inputs as tensors, so that sorting obeys them."""
    return Node(node.name, node.op, [*node.inputs, *((name, 0) for name in node.controls)])


def _input_conditions(node: Node, body: Body, conditions: dict[str, PathConditions]) -> list[PathConditions]:
    """Return the path conditions of each input of `node`, control inputs last."""
    found: list[PathConditions] = []
    for name, side in [*node.inputs, *((name, -1) for name in node.controls)]:
        own = conditions.get(name, frozenset())
        source = body.nodes.get(name)
        if source is not None and source.op in SWITCHES and side >= 0 and len(source.inputs) > 1:
            own |= {(source.inputs[1], min(side, 1))}
        found.append(own)
    return found


class _Branch:
    """The Merges of one branch, and the two inputs of each."""

    def __init__(self, predicate: Ref, conditions: PathConditions, first: Node) -> None:
        self.predicate = predicate
        self.conditions = conditions
        self.name = f"{first.name}/branch"
        self.merges: list[Node] = []
        self.no: list[Ref] = []
        self.yes: list[Ref] = []
        self.predecessors: set[_Branch] = set()

    def node(self) -> Node:
        """Return the branch as a node that reads all inputs of its Merges."""
        dtypes = [merge.dtype("T") for merge in self.merges]
        return Node(self.name, SIDES, [self.predicate, *self.no, *self.yes], [], {"T": dtypes})


class _Branches:
    """The branches of a body, and which of them others depend on."""

    def __init__(self) -> None:
        self.found: list[_Branch] = []
        self._open: dict[tuple[Ref, PathConditions], list[_Branch]] = {}
        self._before: dict[str, frozenset[_Branch]] = {}
        self._of: dict[str, _Branch] = {}

    def record_node(self, node: Node, merges: bool) -> None:
        """Record which branches `node` depends on."""
        own = self._of.get(node.name) if merges else None
        if own is not None:
            self._before[node.name] = frozenset([own])
            return
        self._before[node.name] = self._read(node)

    def _read(self, node: Node) -> frozenset[_Branch]:
        parts = {part for name, _ in node.inputs if (part := self._before.get(name))}
        return next(iter(parts)) if len(parts) == 1 else frozenset[_Branch]().union(*parts)

    def add(self, merge: Node, predicate: Ref, conditions: PathConditions, no: Ref, yes: Ref) -> tuple[_Branch, int]:
        """Return the branch that `merge` belongs to, and its index there.

        Merges share a branch if they have the same predicate and conditions, and none depends on the branch.
        """
        before = self._read(_with_controls(merge))
        known = self._open.setdefault((predicate, conditions), [])
        branch = next((other for other in reversed(known) if not _depends_on(before, other)), None)
        if branch is None:
            branch = _Branch(predicate, conditions, merge)
            known.append(branch)
            self.found.append(branch)
        branch.predecessors |= before
        branch.merges.append(merge)
        branch.no.append(no)
        branch.yes.append(yes)
        self._of[merge.name] = branch
        return branch, len(branch.no) - 1


def _depends_on(start: frozenset[_Branch], wanted: _Branch) -> bool:
    """Return whether `wanted` is among `start`, or one of them depends on it."""
    visited: set[_Branch] = set()
    pending = list(start)
    while pending:
        branch = pending.pop()
        if branch is wanted:
            return True
        if branch not in visited:
            visited.add(branch)
            pending.extend(branch.predecessors)
    return False


def _replace_merge(
    node: Node, plain: Body, body: Body, input_conditions: Sequence[PathConditions], branches: _Branches
) -> list[PathConditions]:
    """Replace the Merge `node` in `plain`, and return the conditions that its result still has."""
    if len(node.inputs) != 2:
        raise Unsupported(f"{node.place}: treadle supports merges of two sides, got {len(node.inputs)}")
    first, second = input_conditions[0], input_conditions[1]
    split = [(predicate, side) for predicate, side in first if (predicate, 1 - side) in second]
    if not split:
        raise Fault(f"{node.place}: no Switch separates its two inputs")
    predicate, side = min(split)
    no, yes = node.inputs if side == 0 else node.inputs[::-1]
    left: PathConditions = (first | second) - {(predicate, 0), (predicate, 1)}
    known = constant_predicate(predicate, body)
    index = (f"{node.name}/index", 0)
    del plain.nodes[node.name]
    plain.aliases[node.name, 1] = index
    taken = [np.array(at if side == 0 else 1 - at, np.int32) for at in (0, 1)]
    if known is not None:
        plain.aliases[node.name, 0] = yes if known else no
        plain.nodes[index[0]] = Node(index[0], "Const", [], [], {"value": taken[known]})
        return [left]
    branch, place = branches.add(node, predicate, left, no, yes)
    plain.aliases[node.name, 0] = (branch.name, place)
    for name, value in zip(("no", "yes"), taken, strict=True):
        plain.nodes[f"{index[0]}/{name}"] = Node(f"{index[0]}/{name}", "Const", [], [], {"value": value})
    choices: list[Ref] = [(f"{index[0]}/{name}", 0) for name in ("yes", "no")]
    plain.nodes[index[0]] = Node(index[0], "SelectV2", [predicate, *choices])
    return [left]


def _set_inputs(node: Node, predicate: Ref, plain: Body, conditions: dict[str, PathConditions]) -> None:
    """Set the inputs of the node of a branch to what its sides read from outside."""
    count = len(node.attr("T"))
    sides = [list(node.inputs[1 : 1 + count]), list(node.inputs[1 + count :])]
    given: dict[Ref, None] = {}
    for side, wanted in enumerate(sides):
        visited: set[Ref] = set()
        pending = list(wanted)
        while pending:
            ref = pending.pop()
            if ref in visited:
                continue
            visited.add(ref)
            if ref[0] in plain.nodes and (predicate, side) in conditions.get(ref[0], ()):
                pending.extend(plain.nodes[ref[0]].inputs)
            else:
                given[ref] = None
    node.inputs = [node.inputs[0], *given]
    node.attrs = {**node.attrs, "sides": sides}


def branch_parts(node: Node) -> Iterator[tuple[list[Ref], dict[Ref, None]]]:
    """Yield, for each side of a branch, what it computes and what it is given."""
    for wanted in node.attr("sides"):
        yield wanted, dict.fromkeys(node.inputs[1:])
