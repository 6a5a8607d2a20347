"""Ops that run in Python behind sizes that depend on data: in the same run, with nothing compiled for a new size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import treadle
from tests.models.small import FLOAT, ModelWriter
from tests.models.test_data_sizes import rows, run_both

ROWS_ALONG_AXIS = {"x": (FLOAT, [24, 16]), "axis": (TensorProto.INT64, [])}
"""With an axis that is an input, CumProd has no kernel."""


def along_axis(positive: int) -> dict[str, np.ndarray]:
    """Rows, and axis 1."""
    return {"x": rows(positive), "axis": np.array(1)}


def rows_above(w: ModelWriter, kind: str, x: str, limit: float) -> str:
    """The rows of x of which a reduction is greater than a limit."""
    found = w.op(kind, x, w.constant(np.array([1])), keepdims=0)
    places = w.op("NonZero", w.op("Greater", found, w.constant(np.float32(limit))))
    return w.op("Gather", x, w.op("Squeeze", places, w.constant(np.array([0]))))


def multiplied_rows() -> onnx.ModelProto:
    """Layers, CumProd (which has no kernel) and again layers on the rows of x whose sum is positive."""
    w = ModelWriter()
    kept = w.op("Relu", w.op("MatMul", rows_above(w, "ReduceSum", "x", 0), w.random(16, 8)))
    y = w.op("Tanh", w.op("CumProd", kept, "axis"))
    return w.model(ROWS_ALONG_AXIS, {y: (FLOAT, ["kept", 8])}, opset=26)


def found_after_python() -> onnx.ModelProto:
    """Of rows that were chosen and went through Python, some are chosen again."""
    w = ModelWriter()
    made = w.op("CumProd", rows_above(w, "ReduceSum", "x", 0), "axis")
    y = w.op("MatMul", rows_above(w, "ReduceMax", made, 0.5), w.random(16, 4))
    return w.model(ROWS_ALONG_AXIS, {y: (FLOAT, ["n", 4]), made: (FLOAT, ["m", 16])}, opset=26)


def counted_terms() -> onnx.ModelProto:
    """TfIdfVectorizer, which the onnx package's reference runs, on the places that were found."""
    w = ModelWriter()
    places = w.op("Squeeze", w.op("NonZero", "x"), axes=[0])
    y = w.op(
        "TfIdfVectorizer", places, mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
        ngram_counts=[0], ngram_indexes=[0, 1, 2], pool_int64s=[1, 3, 4],
    )  # fmt: skip
    z = w.op("Add", w.op("Relu", y), w.constant(np.float32([1, 2, 3])))
    return w.model({"x": (FLOAT, [8])}, {z: (FLOAT, [3])}, opset=12)


def places(*numbers: int) -> np.ndarray:
    x = np.zeros(8, np.float32)
    x[list(numbers)] = 1
    return x


@pytest.mark.parametrize("model", [multiplied_rows(), found_after_python()], ids=["one size", "two sizes"])
def test_python_ops_behind_sizes(model: onnx.ModelProto) -> None:
    """
    All numbers of rows, none too, on one thread and on several.
    """
    run_both(model, *(along_axis(positive) for positive in (5, 24, 0, 13, 1)))


def test_ops_of_the_reference_behind_sizes() -> None:
    """
    An op that treadle does not know.
    """
    run_both(counted_terms(), *({"x": places(*found)} for found in ((1, 3), (4,), (1, 2, 3, 4, 7))))


@pytest.mark.parametrize("make", [multiplied_rows, found_after_python])
def test_nothing_is_compiled_for_a_new_number_of_rows(make, tmp_path: Path) -> None:
    """
    And what Python runs is a step of the same run.
    """
    session = treadle.Session(make())
    session.run(along_axis(5))
    first = session.compiles
    with treadle.trace(tmp_path / "trace.json") as recording:
        for positive in (2, 7, 24, 11):
            session.run(along_axis(positive))
    assert session.compiles == first
    assert {"non_zero", "data_stage", "CumProd"} <= {event.op for event in recording.events}


def test_a_failure_of_python_behind_sizes_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The session stays usable.
    """
    from onnx.reference.ops.op_tfidf_vectorizer import TfIdfVectorizer

    session, whole = treadle.Session(counted_terms()), TfIdfVectorizer._run
    wanted = session.run({"x": places(1, 3)})

    def failing(*_: object, **__: object) -> None:
        raise ArithmeticError("as the test wants")

    monkeypatch.setattr(TfIdfVectorizer, "_run", failing)
    with pytest.raises(treadle.errors.RunError, match=r"TfIdfVectorizer.*as the test wants"):
        session.run({"x": places(1, 3)})
    monkeypatch.setattr(TfIdfVectorizer, "_run", whole)
    for name, array in session.run({"x": places(1, 3)}).items():
        np.testing.assert_array_equal(array, wanted[name])
