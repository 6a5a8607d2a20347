"""Decision trees as the core op `trees` takes them: each node asks whether a feature is at most a threshold."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.scores import as_float
from treadle.graph.value import Value
from treadle.ops.op import Array
from treadle.records import dataclass

MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF",
)  # fmt: skip
"""How a node compares its feature, in the order in which version 5 numbers them, and leaves."""


@dataclass(slots=True)
class Trees:
    """The operands of the core op `trees`."""

    nodes: Array
    thresholds: Array
    firsts: Array
    ids: Array
    weights: Array
    roots: Array

    def sums(self, node: OnnxNode, targets: int, b: Builder) -> Value:
        """The sums of the weights [rows, targets], in their dtype. Raises Fault for an impossible weight or feature."""
        if self.ids.size and not 0 <= self.ids.min() <= self.ids.max() < targets:
            raise Fault(f"it has a weight for result {self.ids.max()} of {targets}")
        features, largest = (node.dims() or (None,))[-1], int(self.nodes[:, 0].max(initial=0)) // 2
        if features is not None and features <= largest and len(self.nodes) > len(self.roots):
            raise Fault(f"it looks at feature {largest}, but rows have {features}")
        x = as_float(node.input(0), b)
        thresholds = self._exact(x.dtype)
        tables = (self.nodes, thresholds, self.firsts, self.ids, self.weights, self.roots)
        return b.add("trees", x, *(b.constant(np.ascontiguousarray(table)) for table in tables), targets=targets)

    def _exact(self, dtype: DType | None) -> Array:
        """The thresholds in the dtype of x; where x has to be below one, the number before it."""
        assert dtype is not None
        found = self.thresholds["at"].astype(dtype.numpy)
        below = np.where(found == -np.inf, np.nan, np.nextafter(found, np.array(-np.inf, found.dtype)))
        return np.where(self.thresholds["below"], below, found).astype(dtype.numpy)


@dataclass(slots=True)
class Splits:
    """The nodes of a forest: what they compare, and the two nodes that follow each, `children` [2, n]; a leaf follows
    itself.

    `missing` says whether NaN goes the way of a comparison that holds; `members` has the numbers of nodes that look for
    one of several.
    """

    modes: Array
    features: Array
    at: Array
    children: Array
    missing: Array
    members: dict[int, list[float]] = field(default_factory=dict)


def sized(numbers: Array, count: int, name: str) -> Array:
    """Returns `numbers`, the attribute `name`. Raises Fault unless there are `count` of them."""
    if len(numbers) != count:
        raise Fault(f"attribute {name!r} must have {count} elements, got {len(numbers)}")
    return numbers


def check_features(features: Array) -> None:
    """Raises Fault if one of the numbers of features is too large for the core op, or negative."""
    if (features < 0).any() or (features >= 1 << 30).any():
        raise Fault("a node has an impossible feature number")


def forest(splits: Splits, starts: Array, firsts: Array, ids: Array, weights: Array) -> Trees:
    """The trees that begin at the nodes `starts`; leaf i has the weights from firsts[i] on. Raises Fault for a loop."""
    plain = _by_order(splits)
    added = len(plain.modes) - len(splits.modes)
    branch = plain.modes != "LEAF"
    swapped = np.isin(plain.modes, ("BRANCH_GTE", "BRANCH_GT"))
    children = np.where(swapped, plain.children[::-1], plain.children)
    packed = np.where(branch, 2 * plain.features + (plain.missing ^ swapped), 0)
    thresholds = np.zeros(len(plain.modes), [("at", plain.at.dtype), ("below", np.bool_)])
    thresholds["at"], thresholds["below"] = plain.at, np.isin(plain.modes, ("BRANCH_LT", "BRANCH_GTE"))
    roots = np.stack([starts, _depths(starts, children, branch)], axis=1).astype(np.int32)
    nodes = np.stack([packed, *children], axis=1).astype(np.int32)
    ends = np.concatenate([firsts, np.full(added, firsts[-1])]).astype(np.int32)
    return Trees(nodes, thresholds, ends, ids.astype(np.int32), weights, roots)


def _by_order(splits: Splits) -> Splits:
    """The same nodes without those that compare for equality: x is v where it is at most v and not below it."""
    equal = np.flatnonzero(np.isin(splits.modes, ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")))
    if not equal.size:
        return splits
    modes, features, at, missing = (
        each.tolist() for each in (splits.modes, splits.features, splits.at, splits.missing)
    )
    holds, fails = splits.children.tolist()
    for node in equal.tolist():
        yes, no, follows = holds[node], fails[node], missing[node]
        if modes[node] == "BRANCH_NEQ":  # NaN is not equal to anything
            yes, no, follows = no, yes, False
        numbers = splits.members.get(node, [at[node]])
        place = node
        for number, value in enumerate(numbers):
            last = number == len(numbers) - 1
            below = len(modes)
            rest = no if last else below + 1
            modes[place], at[place], missing[place] = "BRANCH_LEQ", value, follows and number == 0
            holds[place], fails[place] = below, rest
            for _ in range(1 if last else 2):
                modes.append("BRANCH_LT")
                features.append(features[node])
                at.append(value)
                missing.append(False)
                holds.append(rest)
                fails.append(yes)
            place = below + 1
    children = np.array([holds, fails], np.int64)
    return Splits(
        np.array(modes),
        np.array(features, np.int64),
        np.array(at, splits.at.dtype),
        children,
        np.array(missing, bool),
    )


def _depths(starts: Array, children: Array, branch: Array) -> Array:
    """How many steps lead from each of `starts` to the deepest leaf. Raises Fault if they go round in a loop."""
    count = len(branch)
    shared = bool((np.bincount(children[:, branch].ravel(), minlength=1) > 1).any())
    depths = np.zeros(len(starts), np.int64)
    level, owners = starts, np.arange(len(starts))
    steps = 0
    while len(level):
        depths[owners] = steps
        if steps > count:
            raise Fault("its nodes form no trees: one follows itself")
        inner = branch[level]
        level, owners = children[:, level[inner]].ravel(), np.tile(owners[inner], 2)
        if shared:
            owners, level = np.divmod(np.unique(owners * count + level), count)
        steps += 1
    return depths
