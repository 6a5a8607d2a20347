"""Operators of ai.onnx.ml, which hold what scikit-learn, XGBoost and LightGBM have trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle
from treadle.errors import ModelError, RunError, TreadleError

X = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
INTERCEPTS = np.float32([0.5, -1, 0.25])

MODES = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater}
STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [10.0, 20.0],
    "n_targets": 1,
}


def session(op: str, x: np.ndarray, outputs: int = 1, **attributes: Any) -> treadle.Session:
    """A session of one node, whose rows are any number."""
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], results, name="n", domain="ai.onnx.ml", **attributes)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info("x", element, ["rows", *x.shape[1:]])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(name) for name in results])
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 21)]
    return treadle.Session(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def run(op: str, x: np.ndarray, outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    """The results of one node."""
    return list(session(op, x, outputs, **attributes).run({"x": x}).values())


def softmax(x: np.ndarray) -> np.ndarray:
    exp = np.exp(x - x.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("how", "after"), [("NONE", lambda s: s), ("LOGISTIC", lambda s: 1 / (1 + np.exp(-s))), ("SOFTMAX", softmax)]
)
@pytest.mark.parametrize("labels", [{"classlabels_ints": [5, 7, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
def test_linear_classifiers_give_labels_and_scores(how: str, after: Any, labels: dict[str, list[Any]]) -> None:
    """
    Labels may be integers or texts.
    """
    found, scores = run(
        "LinearClassifier", X, 2, coefficients=WEIGHTS.ravel().tolist(), intercepts=INTERCEPTS.tolist(),
        post_transform=how, **labels,
    )  # fmt: skip
    wanted = X @ WEIGHTS.T + INTERCEPTS
    (names,) = labels.values()

    assert found.tolist() == [names[best] for best in wanted.argmax(axis=1)]
    np.testing.assert_allclose(scores, after(wanted), rtol=1e-5, atol=1e-6)


def test_one_row_of_coefficients_is_the_score_of_the_second_class() -> None:
    """
    As ONNX Runtime has it, where the specification is silent: the other score is 1 - score, or the logistic of -score.
    """
    given = {"coefficients": WEIGHTS[0].tolist(), "intercepts": [0.5], "classlabels_ints": [3, 8]}
    score = X @ WEIGHTS[0] + 0.5

    labels, plain = run("LinearClassifier", X, 2, **given)
    _, logistic = run("LinearClassifier", X, 2, post_transform="LOGISTIC", **given)

    assert labels.tolist() == np.where(score > 0, 8, 3).tolist()
    np.testing.assert_allclose(plain, np.stack([1 - score, score], axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(logistic[:, 1], 1 / (1 + np.exp(-score)), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_features_of_any_number_type_are_scaled_and_weighted(dtype: type) -> None:
    """
    Integers are not cut off on the way; results are f32.
    """
    x = (5 * X).astype(dtype)
    (scaled,) = run("Scaler", x, offset=[0.5, 1, 2, 3], scale=[0.5, 0.25, 3, 1])
    (sums,) = run(
        "LinearRegressor", x, coefficients=WEIGHTS.ravel().tolist(), intercepts=INTERCEPTS.tolist(), targets=3
    )

    np.testing.assert_allclose(scaled, (x - [0.5, 1, 2, 3]) * [0.5, 0.25, 3, 1], rtol=1e-6)
    np.testing.assert_allclose(sums, x @ WEIGHTS.T + INTERCEPTS, rtol=1e-4, atol=1e-5)
    assert scaled.dtype == sums.dtype == np.float32


def test_normalizer_divides_rows_by_their_norm() -> None:
    """
    A row of zeros stays one.
    """
    x = X.copy()
    x[2] = 0
    norms = {"MAX": np.abs(x).max(axis=1), "L1": np.abs(x).sum(axis=1), "L2": np.sqrt((x * x).sum(axis=1))}
    for norm, length in norms.items():
        (found,) = run("Normalizer", x, norm=norm)
        np.testing.assert_allclose(found, x / np.maximum(length, 1e-30)[:, None], rtol=1e-6)


def test_imputer_puts_values_in_for_nan_or_for_a_number() -> None:
    """
    Each feature has its own value, or all have one.
    """
    x = X.copy()
    x[1, 2] = x[3, 0] = np.nan
    x[4, 1] = 0
    (for_nan,) = run("Imputer", x, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    (for_zero,) = run("Imputer", x, imputed_value_floats=[7.0], replaced_value_float=0.0)

    np.testing.assert_array_equal(for_nan, np.where(np.isnan(x), np.float32([1, 2, 3, 4]), x))
    np.testing.assert_array_equal(for_zero, np.where(x == 0, np.float32(7), x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_each_comparison_of_a_tree_is_exact(mode: str, missing: int, dtype: type) -> None:
    """
    Values at the threshold and right beside it, infinities, and NaN, which goes where the node says.
    """
    column = [0.5, np.nextafter(dtype(0.5), dtype(9)), np.nextafter(dtype(0.5), dtype(-9)), np.inf, -np.inf, np.nan]
    x = np.zeros((6, 4), dtype)
    x[:, 1] = column
    given = {**STUMP, "nodes_modes": [mode, "LEAF", "LEAF"], "nodes_missing_value_tracks_true": [missing, 0, 0]}
    session_ = session("TreeEnsembleRegressor", x, **given)

    with np.errstate(invalid="ignore"):
        yes = np.where(np.isnan(x[:, 1]), bool(missing), MODES[mode](x[:, 1], 0.5))
    np.testing.assert_array_equal(session_.run({"x": x})["y0"][:, 0], np.where(yes, 10, 20))
    assert [node.op for node in session_.graph.nodes][-1] == "trees"


def test_nothing_is_below_minus_infinity() -> None:
    """
    Not even what equals it.
    """
    given = {**STUMP, "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"], "nodes_values": [float("-inf"), 0.0, 0.0]}

    assert run("TreeEnsembleRegressor", np.full((1, 4), -np.inf, np.float32), **given)[0].tolist() == [[20]]


def test_forests_are_summed_or_averaged_and_begin_with_their_base() -> None:
    """
    Trees may stand in any order, and a leaf may have several weights.
    """
    given = {key: value * 2 for key, value in STUMP.items() if isinstance(value, list)}
    given |= {
        "nodes_treeids": [4] * 3 + [1] * 3, "nodes_values": [0.5, 0, 0, -0.5, 0, 0], "target_treeids": [4, 4, 1, 1],
        "target_ids": [0, 1, 1, 1], "base_values": [100.0, 200.0], "n_targets": 2,
    }  # fmt: skip
    low, middle = X[:, 1] <= -0.5, X[:, 1] <= 0.5
    sums = np.stack([np.where(middle, 10, 0), np.where(middle, 0, 20) + np.where(low, 10, 20)], axis=1)

    np.testing.assert_array_equal(run("TreeEnsembleRegressor", X, **given)[0], sums + np.float32([100, 200]))
    averaged = run("TreeEnsembleRegressor", X, aggregate_function="AVERAGE", **given)[0]
    np.testing.assert_array_equal(averaged, sums / 2 + np.float32([100, 200]))


@pytest.mark.parametrize("weights", [[0.125, 0.75], [-1.5, 2.0]])
def test_weights_for_one_of_two_classes_decide_between_both(weights: list[float]) -> None:
    """
    Probabilities are split at 0.5, scores of either sign at 0.
    """
    given = {key.replace("target_", "class_"): value for key, value in STUMP.items() if key != "n_targets"}
    given |= {"class_ids": [1, 1], "class_weights": weights, "classlabels_strings": ["no", "yes"]}
    labels, scores = run("TreeEnsembleClassifier", X, 2, **given)

    low = X[:, 1] <= 0.5
    score = np.where(low, *np.float32(weights))
    assert labels.tolist() == np.where(low, "no", "yes").tolist()
    np.testing.assert_array_equal(scores[:, 1], score)
    np.testing.assert_array_equal(scores[:, 0], 1 - score if min(weights) >= 0 else -score)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "no trees"),
        ({"nodes_truenodeids": [2, 0, 0]}, "no trees"),
        ({"nodes_truenodeids": [9, 0, 0]}, "no node 9"),
        ({"nodes_nodeids": [0, 1, 1]}, "same tree and number"),
        ({"nodes_values": [0.5]}, "nodes_values"),
        ({"nodes_featureids": [-1, 0, 0]}, "feature number"),
        ({"nodes_featureids": [1 << 40, 0, 0]}, "feature number"),
        ({"target_ids": [0, 1]}, "result 1 of 1"),
        ({"target_ids": [0, -1]}, "impossible result"),
        ({"target_nodeids": [1, 7]}, "no node 7"),
        ({"target_ids": [0]}, "target_ids"),
        ({"n_targets": -1}, "n_targets"),
        ({"base_values": [1.0, 2.0, 3.0]}, "base_values"),
        ({"nodes_featureids": [4, 0, 0]}, "feature 4"),
    ],
)
def test_what_is_no_forest_is_refused(change: dict[str, Any], says: str) -> None:
    """
    Circles, nodes that are not there, numbers out of range, lists of different lengths: when the model is loaded.
    """
    with pytest.raises(ModelError, match=says):
        session("TreeEnsembleRegressor", X, **{**STUMP, **change})


def test_a_feature_that_rows_do_not_have_is_an_error_of_the_run() -> None:
    """
    Where the number of features is not stated, it is known when rows come.
    """
    x = np.zeros((2, 1), np.float32)
    unknown = session("TreeEnsembleRegressor", np.zeros((2, 4), np.float32), **STUMP)
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], name="n", domain="ai.onnx.ml", **STUMP)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "features"])],
        [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    free = treadle.Session(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10)
    )

    with pytest.raises(TreadleError):
        unknown.run({"x": x})
    with pytest.raises(TreadleError, match="feature 1"):
        free.run({"x": x})
    assert free.run({"x": np.zeros((1, 2), np.float32)})["y"].tolist() == [[10]]


@pytest.mark.parametrize(
    ("labels", "keys"),
    [({"classlabels_int64s": [4, 5, 6, 9]}, [4, 5, 6, 9]), ({"classlabels_strings": [*"abcd"]}, [*"abcd"])],
)
def test_maps_of_scores_come_as_a_list_of_dicts(labels: dict[str, list[Any]], keys: list[Any]) -> None:
    """
    ZipMap is what skl2onnx puts behind a classifier unless told not to. Keys and scores are Python's own.
    """
    (maps,) = run("ZipMap", X, **labels)

    assert maps == [dict(zip(keys, row, strict=True)) for row in X.tolist()]
    assert {type(score) for row in maps for score in row.values()} == {float}


def test_maps_need_a_score_for_each_label() -> None:
    """
    The error names the output, and the session stays usable.
    """
    one = session("ZipMap", X, classlabels_int64s=[0, 1])

    with pytest.raises(RunError, match="output 'y0': ZipMap: wanted scores of 2 classes, got shape"):
        one.run({"x": X})
    assert session("ZipMap", X[:, :2], classlabels_int64s=[0, 1]).run({"x": X[:1, :2]})


def test_categories_become_numbers_and_back() -> None:
    """
    What is no category becomes the default.
    """
    pairs = {"cats_strings": ["b", "a"], "cats_int64s": [7, 9]}
    texts, numbers = np.array([["a", "b"], ["c", "a"]], object), np.array([[9, 7], [1, 9]])

    assert run("CategoryMapper", texts, **pairs)[0].tolist() == [[9, 7], [-1, 9]]
    assert run("CategoryMapper", numbers, default_string="none", **pairs)[0].tolist() == [["a", "b"], ["none", "a"]]
    with pytest.raises(ModelError, match="'cats_strings' has 2 elements, 'cats_int64s' 1"):
        session("CategoryMapper", numbers, cats_strings=["b", "a"], cats_int64s=[7])


def python_steps(made: treadle.Session) -> set[str]:
    """The ops that the one plan of a session runs as Python functions."""
    (opened,) = made.open_plans()
    return {call.op for call in opened.plan.calls if call.function is not None}


@pytest.mark.parametrize(
    ("keys", "values", "default"),
    [
        ({"keys_int64s": [7, -2, 30]}, {"values_floats": [0.5, 1.5, 2.5]}, {"default_float": -1.0}),
        ({"keys_int64s": [7, -2, 30]}, {"values_int64s": [4, 5, 6]}, {}),
        ({"keys_floats": [0.25, float("nan"), -3.0]}, {"values_int64s": [4, 5, 6]}, {"default_int64": 9}),
        ({"keys_floats": [float("inf"), 1.0]}, {"values_floats": [4.0, 5.0]}, {}),
    ],
)
def test_labels_of_numbers_are_encoded_by_kernels(
    keys: dict[str, list[Any]], values: dict[str, list[Any]], default: dict[str, Any]
) -> None:
    """Each key has its value, NaN too; all else the default. One plan serves all numbers of rows."""
    (known,), (named,) = keys.values(), values.values()
    element = np.int64 if "keys_int64s" in keys else np.float32
    x = np.array([[known[0], known[1]], [known[-1], 8], [-100, 100]], element)
    made = session("LabelEncoder", x, **keys, **values, **default)
    (otherwise,) = default.values() or ((-1,) if "values_int64s" in values else (0.0,))
    table = {str(element(key)): value for key, value in zip(known, named, strict=True)}
    wanted = [[table.get(str(each), otherwise) for each in row] for row in x]

    (found,) = made.run({"x": x}).values()
    assert found.dtype == (np.int64 if "values_int64s" in values else np.float32)
    assert found.tolist() == wanted
    assert made.run({"x": x[:1]})["y0"].tolist() == wanted[:1]
    assert python_steps(made) == set()


@pytest.mark.parametrize("element", [np.int64, np.int32, np.float32])
def test_categories_of_numbers_are_encoded_by_kernels(element: Any) -> None:
    """A 1 for each category, 0 for all where the number is none; one plan serves all numbers of rows."""
    x = np.array([[3], [9], [4], [5]], element)
    made = session("OneHotEncoder", x, cats_int64s=[5, 3, 9], zeros=1)
    for rows in (4, 1, 3):
        (found,) = made.run({"x": x[:rows]}).values()
        assert found.tolist() == [[[0, 1, 0]], [[0, 0, 1]], [[0, 0, 0]], [[1, 0, 0]]][:rows]
    assert python_steps(made) == set()
