"""trees: the sum of the outputs of many decision trees for each row."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, result, same_dtype

TABLES = ("nodes", "thresholds", "firsts", "ids", "weights", "roots")


def infer_trees(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [rows, features] in f32 or f64, then constants:

    - nodes i32[n, 3]: 2 * feature + (1 if NaN is at most any threshold, else 0), and the nodes that follow if x is at
      most the threshold and if it is not; a leaf follows itself;
    - thresholds [n], in the dtype of x;
    - firsts i32[n + 1], ids i32[w], weights [w]: a row that ends in leaf i gets weights[j] added to its result ids[j],
      for j from firsts[i] to firsts[i + 1] - 1;
    - roots i32[trees, 2]: where each tree begins, and how many steps lead to its deepest leaf.

    attrs: targets, the number of results a row. The result is [rows, targets] in the dtype of the weights; weights are
    added tree by tree.
    """
    x = operand(inputs, 0, "x")
    tables = [operand(inputs, index + 1, name) for index, name in enumerate(TABLES)]
    shape, targets = dims(x), attrs["targets"]
    if len(shape) != 2 or x.dtype not in (dtypes.f32, dtypes.f64):
        raise ShapeError(f"x must be a matrix of f32 or f64, got {x.dtype}{text(shape)}")
    same_dtype(("x", x), ("thresholds", tables[1]))
    if any(table.value is None for table in tables):
        raise ShapeError("its tables must be constants")
    nodes, thresholds, firsts, ids, weights, roots = (np.asarray(table.value) for table in tables)
    if any(table.dtype != np.int32 for table in (nodes, firsts, ids, roots)) or weights.dtype.kind != "f":
        raise ShapeError("nodes, firsts, ids and roots must be i32, weights f32 or f64")
    count = len(thresholds)
    if nodes.shape != (count, 3) or firsts.shape != (count + 1,) or roots.ndim != 2 or roots.shape[1:] != (2,):
        raise ShapeError(f"wanted nodes [n, 3], thresholds [n], firsts [n + 1] and roots [trees, 2], got n = {count}")
    if not (_within(nodes[:, 1:], count) and _within(roots[:, 0], count) and _within(ids, targets)):
        raise ShapeError("a node, a root or an id is out of range")
    if len(ids) != len(weights) or not _within(firsts, len(ids) + 1) or (np.diff(firsts) < 0).any():
        raise ShapeError("firsts must not decrease, and stay within the weights")
    if not _within(nodes[:, 0], 2 * shape[1]) and (roots[:, 1] > 0).any():
        raise ShapeError(f"it looks at feature {nodes[:, 0].max() // 2}, but x {text(shape)} has {shape[1]} features")
    return [result(dtypes.from_numpy(weights.dtype), (shape[0], targets))]


def _within(numbers: Array, end: int) -> bool:
    return not numbers.size or bool(int(numbers.min()) >= 0 and int(numbers.max()) < end)


def evaluate_trees(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, nodes, thresholds, firsts, ids, weights, roots = (present(arrays, index) for index in range(7))
    y = np.zeros((len(x), attrs["targets"]), weights.dtype)
    rows = np.arange(len(x))
    for root, depth in roots:
        at = np.full(len(x), root)
        for _ in range(depth):
            value, nan_follows = x[rows, nodes[at, 0] >> 1], (nodes[at, 0] & 1).astype(bool)
            at = np.where((value <= thresholds[at]) | (np.isnan(value) & nan_follows), nodes[at, 1], nodes[at, 2])
        for step in range(int(np.diff(firsts).max(initial=0))):
            which = firsts[at] + step
            (there,) = np.nonzero(which < firsts[at + 1])
            y[there, ids[which[there]]] += weights[which[there]]
    return [y]
