"""TreeEnsemble of ai.onnx.ml (version 5): leaves are apart from nodes, and nodes may ask for one of several numbers."""

from __future__ import annotations

import numpy as np

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.forest import MODES, Splits, check_features, forest, sized
from treadle.graph.value import Value
from treadle.ops.op import Array

_AVERAGE, _SUM = 0, 1
_MEMBER = MODES.index("BRANCH_MEMBER")


def tree_ensemble(node: OnnxNode, b: Builder) -> Value | None:
    """x [rows, features] -> the sum or the average of the weights of leaves [rows, targets].

    None for the least and the greatest weight, and for transformed sums.
    """
    how, targets = node.integer("aggregate_function", _SUM), node.integer("n_targets", 0)
    if how not in (_AVERAGE, _SUM) or node.integer("post_transform", 0) or node.rank() != 2:
        return None
    if targets < 1:
        raise Fault(f"attribute 'n_targets' must be 1 or more, got {targets}")
    modes, weights = _tensor(node, "nodes_modes"), _tensor(node, "leaf_weights")
    count, leaves = len(modes), len(weights)
    if modes.size and int(modes.max()) > _MEMBER:
        raise Fault(f"attribute 'nodes_modes' has a number above {_MEMBER}: {int(modes.max())}")
    features = _numbers(node, "nodes_featureids", count)
    missing = _numbers(node, "nodes_missing_value_tracks_true", count)
    check_features(features)
    children = [_children(node, way, count, leaves) for way in ("true", "false")]
    itself = np.arange(count, count + leaves)
    at = sized(_tensor(node, "nodes_splits"), count, "nodes_splits")
    splits = Splits(
        np.array([*(MODES[mode] for mode in modes.tolist()), *["LEAF"] * leaves]),
        np.concatenate([features, np.zeros(leaves, np.int64)]),
        np.concatenate([at, np.zeros(leaves, at.dtype)]),
        np.array([np.concatenate([each, itself]) for each in children]),
        np.concatenate([missing != 0, np.zeros(leaves, bool)]),
        _members(node, modes),
    )
    starts = np.array(node.integers("tree_roots") or (), np.int64)
    if not len(starts) or starts.min() < 0 or starts.max() >= count:
        raise Fault(f"attribute 'tree_roots' must have numbers of its {count} nodes")
    firsts = np.concatenate([np.zeros(count, np.int64), np.arange(leaves + 1)])
    ids = _numbers(node, "leaf_targetids", leaves)
    wide = weights.astype(np.float64 if weights.dtype == np.float64 else np.float32)
    total = forest(splits, starts, firsts, ids, wide).sums(node, targets, b)
    if how == _AVERAGE:
        total = b.add("div", total, b.scalar(len(starts), total.dtype))
    return b.cast(total, node.dtype())


def _children(node: OnnxNode, way: str, count: int, leaves: int) -> Array:
    """The nodes that follow where comparisons hold (`way` is "true") or not; leaves are behind the `count` nodes."""
    numbers, are_leaves = _numbers(node, f"nodes_{way}nodeids", count), _numbers(node, f"nodes_{way}leafs", count) != 0
    if ((numbers < 0) | (numbers >= np.where(are_leaves, leaves, count))).any():
        raise Fault(f"attribute 'nodes_{way}nodeids' has the number of no node or leaf")
    return np.where(are_leaves, count + numbers, numbers)


def _members(node: OnnxNode, modes: Array) -> dict[int, list[float]]:
    """For each node that asks for one of several numbers these, of which NaN ends each list."""
    asking = np.flatnonzero(modes == _MEMBER).tolist()
    if not asking:
        return {}
    values = _tensor(node, "membership_values")
    ends = np.flatnonzero(np.isnan(values)).tolist()
    if len(ends) != len(asking):
        raise Fault(f"attribute 'membership_values' must have {len(asking)} lists that end with NaN, got {len(ends)}")
    starts = [0, *(end + 1 for end in ends[:-1])]
    found = {at: values[start:end].tolist() for at, start, end in zip(asking, starts, ends, strict=True)}
    if not all(found.values()):
        raise Fault("attribute 'membership_values' has an empty list")
    return found


def _tensor(node: OnnxNode, name: str) -> Array:
    found = node.tensor(name)
    if found is None or found.ndim != 1:
        raise Fault(f"attribute {name!r} must be a tensor of one dimension")
    return found


def _numbers(node: OnnxNode, name: str, count: int) -> Array:
    return sized(np.array(node.integers(name) or (0,) * count, np.int64), count, name)
