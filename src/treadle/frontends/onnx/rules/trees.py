"""TreeEnsembleClassifier and TreeEnsembleRegressor of ai.onnx.ml (versions 1 and 3)."""

from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.forest import MODES, Splits, Trees, check_features, forest, sized
from treadle.frontends.onnx.rules.scores import (
    CORE_TRANSFORMS,
    best_labels,
    both_scores,
    class_labels,
    decided_labels,
    post_transform,
    transformed,
)
from treadle.graph.value import Value
from treadle.ops.op import Array


def tree_regressor(node: OnnxNode, b: Builder) -> Value | None:
    """x [rows, features] -> the sum or the average of the trees' weights, + base_values [rows, targets]."""
    how = node.choice("aggregate_function", "SUM", "SUM", "AVERAGE", "MIN", "MAX")
    targets = node.integer("n_targets", 0)
    trees = _trees(node, "target") if how in ("SUM", "AVERAGE") and post_transform(node) == "NONE" else None
    if trees is None:
        return None
    if targets < 1:
        raise Fault(f"attribute 'n_targets' must be 1 or more, got {targets}")
    total = trees.sums(node, targets, b)
    if how == "AVERAGE":
        total = b.add("div", total, b.scalar(len(trees.roots), dtypes.f32))
    return _with_base(node, total, targets, b)


def tree_classifier(node: OnnxNode, b: Builder) -> list[Value] | None:
    """x [rows, features] -> labels [rows], scores [rows, classes].

    Of two classes with weights for one alone these are the score of the second, as ONNX Runtime has it: labels are
    decided at 0.5 and the other score is 1 - score if no weight is negative, else at 0 and it is -score.
    """
    labels, how = class_labels(node, "classlabels_int64s"), post_transform(node)
    trees = _trees(node, "class") if how in CORE_TRANSFORMS else None
    if trees is None or len(labels) < 2:
        return None
    if len(labels) > 2 or len(np.unique(trees.ids)) > 1:
        scores = _with_base(node, trees.sums(node, len(labels), b), len(labels), b)
        return [best_labels(scores, labels, b), transformed(scores, how, b)]
    positive = bool((trees.weights >= 0).all())
    base = node.floats("base_values")
    if how != ("NONE" if positive else how) or how == "SOFTMAX" or (base is not None and len(base) > 1):
        return None
    trees.ids[:] = 0
    score = _with_base(node, trees.sums(node, 1, b), 1, b)
    scores = transformed(both_scores(score, complement=positive, b=b), how, b)
    return [decided_labels(score, 0.5 if positive else 0.0, labels, b), scores]


def _with_base(node: OnnxNode, total: Value, count: int, b: Builder) -> Value:
    """Returns `total` plus base_values. Raises Fault unless there is one base value for each of `count` results."""
    base = node.floats("base_values")
    if base is None or not len(base):
        return total
    if len(base) != count:
        raise Fault(f"it has {len(base)} base_values for {count} results")
    return b.add("add", total, b.constant(base))


def _trees(node: OnnxNode, kind: str) -> Trees | None:
    """The trees of `node`, whose weights are in attributes that begin with `kind`.

    None for numbers given as tensors, and for comparisons that the specification does not have. Raises Fault for what
    is no forest.
    """
    modes = node.texts("nodes_modes")
    if modes is None or not set(modes) <= set(MODES) or _has_tensors(node):
        return None
    count = len(modes)
    keys = _columns(node, count, "nodes_treeids", "nodes_nodeids")
    index = {key: at for at, key in enumerate(map(tuple, keys.T.tolist()))}
    if len(index) != count:
        raise Fault("two of its nodes have the same tree and number")
    (features,) = _columns(node, count, "nodes_featureids")
    (missing,) = _columns(node, count, "nodes_missing_value_tracks_true")
    mode = np.array(modes)
    branch = mode != "LEAF"
    children = np.tile(np.arange(count), (2, 1))
    for row, attribute in zip(children, ("nodes_truenodeids", "nodes_falsenodeids"), strict=True):
        (numbers,) = _columns(node, count, attribute)
        row[branch] = [
            _found(index, tree, number) for tree, number in zip(keys[0][branch], numbers[branch], strict=True)
        ]
    check_features(features[branch])
    _, starts = np.unique(keys[0], return_index=True)
    parents = np.bincount(children[:, branch].ravel(), minlength=count)
    if (parents > 1).any() or parents[starts].any():
        raise Fault("its nodes form no trees: one follows two others, or the first of its tree follows another")
    values = node.floats("nodes_values")
    at = np.zeros(count, np.float32) if values is None else sized(values, count, "nodes_values")
    splits = Splits(mode, features, at, children, missing != 0)
    return forest(splits, starts, *_weights(node, kind, index, count))


def _has_tensors(node: OnnxNode) -> bool:
    return any(attribute.name.endswith("_as_tensor") for attribute in node.proto.attribute)


def _columns(node: OnnxNode, count: int, *attributes: str) -> Array:
    """Lists of `count` integers as rows; one that is not given is zeros."""
    rows = [node.integers(name) or (0,) * count for name in attributes]
    return np.stack([sized(np.array(row, np.int64), count, name) for row, name in zip(rows, attributes, strict=True)])


def _found(index: dict[Any, int], tree: Any, number: Any) -> int:
    """Returns the index of the node. Raises Fault if there is none."""
    at = index.get((int(tree), int(number)))
    if at is None:
        raise Fault(f"tree {tree} has no node {number}")
    return at


def _weights(node: OnnxNode, kind: str, index: dict[Any, int], count: int) -> tuple[Array, Array, Array]:
    """(firsts, ids, weights) by node, those of one node in the order they are given."""
    weights = node.floats(f"{kind}_weights")
    if weights is None:
        raise Fault(f"its attribute '{kind}_weights' is missing")
    trees, numbers, ids = _columns(node, len(weights), f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
    owners = np.array([_found(index, tree, number) for tree, number in zip(trees, numbers, strict=True)], np.int64)
    order = np.argsort(owners, kind="stable")
    firsts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))])
    if ids.size and not -1 < ids.min() <= ids.max() < 1 << 31:
        raise Fault("a weight is for an impossible result")
    return firsts.astype(np.int32), ids[order].astype(np.int32), weights[order]
