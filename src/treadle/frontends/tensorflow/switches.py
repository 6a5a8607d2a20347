"""TensorFlow 1's branches: Switch and Merge, made into nodes that compute the side that is taken.

A Switch sends its input to one of two sides, and a Merge takes what comes from the side that was taken. Where the
predicate is known (a frozen learning phase), only the side taken is left. Elsewhere the Merges of a branch become one node,
which runs the nodes that lie on one side of the predicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.tensorflow.body import SWITCHES, Body, known_truth, sorted_nodes
from treadle.frontends.tensorflow.node import Node, Ref

SIDES = "_Sides"
"""The op that the Merges of a branch become: inputs the predicate, then what either side reads. Its attribute `sides` has the
tensors that are wanted of the side taken if the predicate does not hold, and if it does."""

Guards = frozenset[tuple[Ref, int]]
"""On which sides of which predicates a tensor exists."""


def without_switches(body: Body) -> Body:
    """`body` with its Switch and Merge nodes replaced. Raises Fault where they fit no branch."""
    if not any(node.op in SWITCHES or node.op in MERGES for node in body.nodes.values()):
        return body
    plain = Body(dict(body.nodes), body.arguments, list(body.results), dict(body.aliases))
    guards: dict[str, Guards] = {}
    branches = _Branches()
    for node in sorted_nodes([_with_controls(node) for node in body.nodes.values()], {}):
        original = body.nodes[node.name]
        around = _around(original, body, guards)
        if original.op in MERGES:
            around = _merge(original, plain, body, around, branches)
        elif original.op in SWITCHES:
            data = original.inputs[:1]
            plain.aliases.update(((node.name, side), ref) for side in (0, 1) for ref in data)
            del plain.nodes[node.name]
        guards[node.name] = frozenset[tuple[Ref, int]]().union(*around)
        branches.note(node, original.op in MERGES)
    for branch in branches.found:
        plain.nodes[branch.name] = branch.node()
        guards[branch.name] = branch.guards
    plain.settle()
    for branch in branches.found:
        _close(plain.nodes[branch.name], branch.predicate, plain, guards)
    return plain


MERGES = ("Merge", "RefMerge")


def _with_controls(node: Node) -> Node:
    """The node with its control inputs as tensors, so that they order it."""
    return Node(node.name, node.op, [*node.inputs, *((name, 0) for name in node.controls)])


def _around(node: Node, body: Body, guards: dict[str, Guards]) -> list[Guards]:
    """The guards of each input of `node`, control inputs last."""
    found: list[Guards] = []
    for name, side in [*node.inputs, *((name, -1) for name in node.controls)]:
        own = guards.get(name, frozenset())
        source = body.nodes.get(name)
        if source is not None and source.op in SWITCHES and side >= 0 and len(source.inputs) > 1:
            own |= {(source.inputs[1], min(side, 1))}
        found.append(own)
    return found


class _Branch:
    """The Merges of one branch, and what each of them takes."""

    def __init__(self, predicate: Ref, guards: Guards, first: Node) -> None:
        self.predicate = predicate
        self.guards = guards
        self.name = f"{first.name}/branch"
        self.merges: list[Node] = []
        self.no: list[Ref] = []
        self.yes: list[Ref] = []
        self.behind: set[_Branch] = set()

    def node(self) -> Node:
        """It as a node, which reads all that its Merges take."""
        dtypes = [merge.dtype("T") for merge in self.merges]
        return Node(self.name, SIDES, [self.predicate, *self.no, *self.yes], [], {"T": dtypes})


class _Branches:
    """The branches of a body, and which of them come before which."""

    def __init__(self) -> None:
        self.found: list[_Branch] = []
        self._open: dict[tuple[Ref, Guards], list[_Branch]] = {}
        self._before: dict[str, frozenset[_Branch]] = {}
        self._of: dict[str, _Branch] = {}

    def note(self, node: Node, merges: bool) -> None:
        """Keep which branches `node` depends on."""
        own = self._of.get(node.name) if merges else None
        if own is not None:
            self._before[node.name] = frozenset([own])
            return
        self._before[node.name] = self._read(node)

    def _read(self, node: Node) -> frozenset[_Branch]:
        parts = {part for name, _ in node.inputs if (part := self._before.get(name))}
        return next(iter(parts)) if len(parts) == 1 else frozenset[_Branch]().union(*parts)

    def add(self, merge: Node, predicate: Ref, guards: Guards, no: Ref, yes: Ref) -> tuple[_Branch, int]:
        """The branch that `merge` belongs to, and its place there: one of the same predicate that does not come before it."""
        before = self._read(_with_controls(merge))
        known = self._open.setdefault((predicate, guards), [])
        branch = next((other for other in reversed(known) if not _reaches(before, other)), None)
        if branch is None:
            branch = _Branch(predicate, guards, merge)
            known.append(branch)
            self.found.append(branch)
        branch.behind |= before
        branch.merges.append(merge)
        branch.no.append(no)
        branch.yes.append(yes)
        self._of[merge.name] = branch
        return branch, len(branch.no) - 1


def _reaches(start: frozenset[_Branch], wanted: _Branch) -> bool:
    """Whether `wanted` is among `start`, or comes before one of them."""
    seen: set[_Branch] = set()
    open_ = list(start)
    while open_:
        branch = open_.pop()
        if branch is wanted:
            return True
        if branch not in seen:
            seen.add(branch)
            open_.extend(branch.behind)
    return False


def _merge(node: Node, plain: Body, body: Body, around: Sequence[Guards], branches: _Branches) -> list[Guards]:
    """Replace the Merge `node` in `plain`; returns the guards that its result still has."""
    if len(node.inputs) != 2:
        raise Unsupported(f"{node.place}: treadle takes merges of two sides, got {len(node.inputs)}")
    first, second = around[0], around[1]
    split = [(predicate, side) for predicate, side in first if (predicate, 1 - side) in second]
    if not split:
        raise Fault(f"{node.place}: no Switch parts its two inputs")
    predicate, side = min(split)
    no, yes = node.inputs if side == 0 else node.inputs[::-1]
    left: Guards = (first | second) - {(predicate, 0), (predicate, 1)}
    known = known_truth(predicate, body)
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


def _close(node: Node, predicate: Ref, plain: Body, guards: dict[str, Guards]) -> None:
    """Let the node of a branch read only what its sides read from outside."""
    count = len(node.attr("T"))
    sides = [list(node.inputs[1 : 1 + count]), list(node.inputs[1 + count :])]
    given: dict[Ref, None] = {}
    for side, wanted in enumerate(sides):
        seen: set[Ref] = set()
        open_ = list(wanted)
        while open_:
            ref = open_.pop()
            if ref in seen:
                continue
            seen.add(ref)
            if ref[0] in plain.nodes and (predicate, side) in guards.get(ref[0], ()):
                open_.extend(plain.nodes[ref[0]].inputs)
            else:
                given[ref] = None
    node.inputs = [node.inputs[0], *given]
    node.attrs = {**node.attrs, "sides": sides}


def sides(node: Node) -> Iterator[tuple[list[Ref], dict[Ref, None]]]:
    """Of either side of a branch: what it computes, and what is given to it."""
    for wanted in node.attr("sides"):
        yield wanted, dict.fromkeys(node.inputs[1:])
