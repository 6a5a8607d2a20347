"""Cases of trees."""

import numpy as np

from tests.ops.case import Case, floats, random


def _forest(name: str, trees: int, depth: int, features: int, targets: int, dtype: type) -> tuple[np.ndarray, ...]:
    """Random trees, no two alike: a node becomes a leaf early now and then; leaves have one weight or several."""
    rng = random(name)
    nodes: list[list[int]] = []
    firsts, ids = [0], []

    def grow(left: int) -> int:
        at = len(nodes)
        nodes.append([0, at, at])
        if left and rng.random() < 0.9:
            firsts.append(len(ids))
            nodes[at] = [int(rng.integers(0, 2 * features)), grow(left - 1), grow(left - 1)]
        else:
            ids.extend(rng.integers(0, targets, rng.integers(1, 4)))
            firsts.append(len(ids))
        return at

    roots = [[grow(depth), depth] for _ in range(trees)]
    thresholds = rng.standard_normal(len(nodes)).astype(dtype)
    weights = rng.standard_normal(len(ids)).astype(np.float32)
    fields, ends, results, starts = (np.array(table, np.int32) for table in (nodes, firsts, ids, roots))
    return fields, thresholds, ends, results, weights, starts


def _case(
    name: str,
    rows: int,
    *,
    trees: int = 5,
    depth: int = 4,
    features: int = 6,
    targets: int = 3,
    dtype: type = np.float32,
) -> Case:
    x = floats(f"trees/{name}", rows, features, dtype=dtype)
    x[x > 1.5] = np.nan
    tables = _forest(name, trees, depth, features, targets, dtype)
    return Case(f"trees/{name}", "trees", {"targets": targets}, (x, *tables), frozenset(range(1, 7)))


CASES = [
    _case("one_row", 1),
    _case("many_rows", 301),
    _case("f64", 17, dtype=np.float64),
    _case("one_target", 23, targets=1, depth=7),
    _case("one_leaf", 9, trees=1, depth=0),
    _case("no_rows", 0),
]
