"""SVMRegressor and SVMClassifier: kernels only, and what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle
from tests.models.contrib import Array, some

X = some(9, 5)
VECTORS = some(12, 5, seed=1)
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def model(op: str, results: tuple[str, ...], dtype: Any, attributes: dict[str, Any]) -> bytes:
    node = helper.make_node(op, ["x"], results, domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "svm",
        [helper.make_tensor_value_info("x", kind, ["rows", 5])],
        [onnx.ValueInfoProto(name=name) for name in results],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


def both(op: str, attributes: dict[str, Any], x: Array = X) -> tuple[list[Array], list[Array]]:
    """The results of treadle, which must be those of kernels alone, and of ONNX Runtime."""
    results = ("label", "scores") if op == "SVMClassifier" else ("y",)
    content = model(op, results, x.dtype, attributes)
    session = treadle.Session(content)
    found = session.run({"x": x})
    assert [call.op for plan in session.plans() for call in plan.calls if call.function is not None] == []
    runtime = pytest.importorskip("onnxruntime")
    theirs = runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(list(results), {"x": x})
    return [found[name] for name in results], theirs


def regressor(kind: str, **attributes: Any) -> dict[str, Any]:
    return {
        "kernel_type": kind,
        "kernel_params": [0.3, 0.5, 3.0],
        "support_vectors": VECTORS.reshape(-1).tolist(),
        "coefficients": some(12, seed=2).tolist(),
        "n_supports": 12,
        "rho": [0.25],
    } | attributes


def classifier(kind: str, classes: int, **attributes: Any) -> dict[str, Any]:
    counts = {2: [5, 7], 3: [3, 4, 5], 4: [2, 4, 5, 1]}[classes]
    return {
        "kernel_type": kind,
        "kernel_params": [0.3, 0.5, 3.0],
        "support_vectors": VECTORS.reshape(-1).tolist(),
        "coefficients": some(classes - 1, 12, seed=2).reshape(-1).tolist(),
        "vectors_per_class": counts,
        "rho": some(classes * (classes - 1) // 2, seed=3).tolist(),
        "classlabels_ints": list(range(10, 10 + classes)),
    } | attributes


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressors_are_those_of_onnxruntime(kind: str, one_class: int) -> None:
    (found,), (theirs,) = both("SVMRegressor", regressor(kind, one_class=one_class))

    np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=1e-4)


def test_a_regressor_without_support_vectors_is_linear() -> None:
    attributes = {"kernel_type": "LINEAR", "kernel_params": [0.0] * 3, "coefficients": some(5).tolist(), "rho": [0.5]}
    (found,), (theirs,) = both("SVMRegressor", attributes)

    np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_classifiers_are_those_of_onnxruntime(kind: str, classes: int) -> None:
    (labels, scores), (their_labels, their_scores) = both("SVMClassifier", classifier(kind, classes))

    np.testing.assert_array_equal(labels, their_labels)
    np.testing.assert_allclose(scores, their_scores, rtol=1e-4, atol=1e-4)


def with_probabilities(kind: str, classes: int) -> dict[str, Any]:
    pairs = classes * (classes - 1) // 2
    slopes, offsets = -np.abs(some(pairs, seed=5)) - 0.3, some(pairs, seed=6)
    return classifier(kind, classes, prob_a=slopes.tolist(), prob_b=offsets.tolist())


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_probabilities_are_those_of_onnxruntime(classes: int) -> None:
    """Those of pairs are joined by the same search as there; labels stay those of votes."""
    (labels, scores), (their_labels, their_scores) = both("SVMClassifier", with_probabilities("RBF", classes))

    np.testing.assert_array_equal(labels, their_labels)
    np.testing.assert_allclose(scores, their_scores, rtol=1e-5, atol=1e-6)


def test_probabilities_fit_those_of_pairs_best() -> None:
    """They minimise a quadratic form whose minimum linear equations give; no row is no error."""
    attributes = with_probabilities("LINEAR", 3)
    slopes, offsets = (np.array(attributes[name]) for name in ("prob_a", "prob_b"))
    pairs = treadle.Session(model("SVMClassifier", ("label", "scores"), np.float32, classifier("LINEAR", 3)))
    found = 1 / (1 + np.exp(pairs.run({"x": X})["scores"].astype(np.float64) * slopes + offsets))
    session = treadle.Session(model("SVMClassifier", ("label", "scores"), np.float32, attributes))
    for row, scores in zip(found, session.run({"x": X})["scores"], strict=True):
        r = np.zeros((3, 3))
        r[[0, 0, 1], [1, 2, 2]], r[[1, 2, 2], [0, 0, 1]] = row, 1 - row
        form = np.diag((r**2).sum(axis=0)) - r * r.T
        system = np.block([[form, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
        wanted = np.linalg.solve(system, np.array([0, 0, 0, 1.0]))[:3]
        np.testing.assert_allclose(scores, wanted, atol=0.02)
        np.testing.assert_allclose(scores.sum(), 1, rtol=1e-5)
    assert session.run({"x": X[:0]})["scores"].shape == (0, 3)


def test_distances_keep_their_digits_far_from_the_origin() -> None:
    """Features of 1,000 and more: the mean of the support vectors is taken away first."""
    moved = classifier("RBF", 3, support_vectors=(VECTORS + 1000).reshape(-1).tolist())
    found = both("SVMClassifier", moved, (X + 1000).astype(np.float32))[0][1]
    wanted = both("SVMClassifier", classifier("RBF", 3))[0][1]

    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"rho": [0.1]}, "attribute 'rho' must have 3 numbers for 3 classes, got 1"),
        ({"vectors_per_class": [5, 7]}, "'vectors_per_class' must have 3 numbers"),
        ({"coefficients": [0.5, -0.5]}, "the 2 numbers of attribute 'coefficients' cannot be divided"),
        ({"prob_a": [0.5], "prob_b": [0.5]}, "attribute 'prob_a' must have 3 numbers, one for each pair"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(attributes: dict[str, Any], message: str) -> None:
    content = model("SVMClassifier", ("label", "scores"), np.float32, classifier("RBF", 3, **attributes))

    with pytest.raises(treadle.errors.TreadleError, match=message):
        treadle.Session(content)
