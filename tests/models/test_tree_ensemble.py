"""Decision trees that compare for equality, and TreeEnsemble of version 5: kernels only, and what ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle
from tests.models.contrib import Array
from treadle.errors import ModelError

MODES = [0, 4, 6, 5, 3, 2, 1]
"""At most, equal, one of several, not equal, above, at least, below."""
SPLITS = [0.2, 1, 0, 2, 0.5, 0.5, 0.5]
FEATURES = [1, 0, 2, 3, 1, 1, 1]
TRUE, TRUE_LEAFS = [1, 0, 2, 4, 6, 8, 10], [0, 1, 1, 1, 1, 1, 1]
FALSE, FALSE_LEAFS = [2, 1, 3, 5, 7, 9, 11], [0, 1, 1, 1, 1, 1, 1]
MISSING = [0, 1, 1, 1, 0, 1, 0]
TARGETS, ROOTS = [0, 1] * 6, [0, 3, 4, 5, 6]
WEIGHTS = np.arange(1, 13) / 4


def rows(dtype: Any) -> Array:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (60, 4)).astype(dtype)
    x[:, 1] = rng.choice([0.25, 0.5, -1, 3], 60)
    x[rng.random(x.shape) < 0.15] = np.nan
    return x


def model(dtype: Any, **changes: Any) -> bytes:
    tensors = {
        "nodes_modes": np.array(MODES, np.uint8),
        "nodes_splits": np.array(SPLITS, dtype),
        "leaf_weights": WEIGHTS.astype(dtype),
        "membership_values": np.array([1, 2, 3, np.nan], dtype),
    }
    attributes = {
        "nodes_featureids": FEATURES,
        "nodes_truenodeids": TRUE,
        "nodes_trueleafs": TRUE_LEAFS,
        "nodes_falsenodeids": FALSE,
        "nodes_falseleafs": FALSE_LEAFS,
        "nodes_missing_value_tracks_true": MISSING,
        "leaf_targetids": TARGETS,
        "tree_roots": ROOTS,
        "n_targets": 2,
        "aggregate_function": 1,
        "post_transform": 0,
        **{name: numpy_helper.from_array(array, name) for name, array in tensors.items()},
    } | changes
    return one_node("TreeEnsemble", dtype, 5, attributes)


def one_node(op: str, dtype: Any, version: int, attributes: dict[str, Any]) -> bytes:
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    takes = [helper.make_tensor_value_info("x", kind, ["rows", "features"])]
    graph = helper.make_graph([node], "g", takes, [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 21)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def walked(row: Array) -> Array:
    """The sums of the weights of the leaves that a row comes to."""
    sums = np.zeros(2)
    for root in ROOTS:
        at, is_leaf = root, 0
        while not is_leaf:
            value, split = row[FEATURES[at]], SPLITS[at]
            holds = [value <= split, value < split, value >= split, value > split, value == split, value != split]
            yes = [*holds, value in (1, 2, 3)][MODES[at]] or (np.isnan(value) and MISSING[at])
            at, is_leaf = (TRUE[at], TRUE_LEAFS[at]) if yes else (FALSE[at], FALSE_LEAFS[at])
        sums[TARGETS[at]] += WEIGHTS[at]
    return sums


def by_onnxruntime(content: bytes, x: Array) -> Array:
    runtime = pytest.importorskip("onnxruntime")
    return np.asarray(runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("average", [False, True])
def test_rows_come_to_the_leaves_of_each_tree(dtype: Any, average: bool) -> None:
    """NaN equals nothing, and goes where the node says otherwise."""
    content, x = model(dtype, aggregate_function=0 if average else 1), rows(dtype)
    session = treadle.Session(content)
    found = session.run({"x": x})["y"]
    wanted = np.array([walked(row) for row in x]) / (len(ROOTS) if average else 1)

    assert [call.op for plan in session.plans() for call in plan.calls if call.function is not None] == []
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(found, by_onnxruntime(content, x), rtol=1e-6)


@pytest.mark.parametrize("mode", ["BRANCH_EQ", "BRANCH_NEQ"])
@pytest.mark.parametrize("missing", [0, 1])
def test_older_trees_compare_for_equality_too(mode: str, missing: int) -> None:
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": [mode, "LEAF", "LEAF"],
        "nodes_values": [2.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_missing_value_tracks_true": [missing, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [10.0, 20.0],
        "n_targets": 1,
    }
    content = one_node("TreeEnsembleRegressor", np.float32, 3, attributes)
    x = np.float32([[1], [2], [3], [np.nan]])
    found = treadle.Session(content).run({"x": x})["y"]
    is_true = x == 2 if mode == "BRANCH_EQ" else x != 2

    np.testing.assert_array_equal(found, np.where(is_true | (np.isnan(x) & bool(missing)), 10, 20))
    np.testing.assert_array_equal(found, by_onnxruntime(content, x))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes_truenodeids": [1, 0, 2, 4, 6, 8, 12]}, "'nodes_truenodeids' has the number of no node or leaf"),
        ({"nodes_truenodeids": [0, 0, 2, 4, 6, 8, 10]}, "one follows itself"),
        ({"tree_roots": [7]}, "'tree_roots' must have numbers of its 7 nodes"),
        ({"leaf_targetids": [0]}, "'leaf_targetids' must have 12 elements, got 1"),
        (
            {"membership_values": numpy_helper.from_array(np.float32([1, 2]), "m")},
            "must have 1 lists that end with NaN",
        ),
    ],
)
def test_what_is_no_forest_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        treadle.Session(model(np.float32, **change))
