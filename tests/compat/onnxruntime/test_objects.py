"""Inputs that are no dense tensors: sequences, optionals, sparse tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compat.onnxruntime import models

X = np.float32([1, 2])


def session_of(ort: ModuleType, model: bytes) -> Any:
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def test_a_sequence_is_a_list(ort: ModuleType) -> None:
    """
    Its elements may have several shapes.
    """
    session = session_of(ort, models.element())
    one, _ = session.get_inputs()
    assert (one.name, one.type, one.shape) == ("s", "seq(tensor(float))", [])
    for number, wanted in enumerate(([1, 2], [[3]])):
        (found,) = session.run(None, {"s": [X, np.float32([[3]])], "i": np.array(number)})
        assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ((X, X), RuntimeError, "should be given as array for input 's'"),
        ([X.astype(np.float64)], RuntimeError, "tensor to be added has a different data type"),
        ([[1.0, 2.0]], RuntimeError, "Input is not a tensor"),
        (X, None, "input with name: 's' expected to be of type: 3 but received a tensor"),
    ],
)
def test_what_is_no_sequence(ort: ModuleType, state: Any, given: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind or state.InvalidArgument, match=text):
        session_of(ort, models.element()).run(None, {"s": given, "i": np.array(0)})


def test_an_optional_may_be_absent(ort: ModuleType, state: Any) -> None:
    """
    It is None, or left out.
    """
    session = session_of(ort, models.optional_sum())
    (one,) = session.get_inputs()
    assert (one.type, one.shape) == ("optional(tensor(float))", [2])
    there, same = session.run(None, {"o": X})
    assert there
    assert np.array_equal(same, X)
    for feeds in ({"o": None}, {}):
        there, same = session.run(None, feeds)
        assert not there
        assert same is None
    with pytest.raises(state.InvalidArgument, match=r"Actual: \(tensor\(int64\)\) , expected: \(tensor\(float\)\)"):
        session.run(None, {"o": np.array([1, 2])})


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_a_sparse_tensor_is_multiplied(ort: ModuleType, state: Any, form: str) -> None:
    device, values = ort.OrtDevice.make("cpu", 0), np.float32([3, 4])
    if form == "coo":
        indices = np.array([[0, 1], [1, 2]])
        sparse = ort.SparseTensor.sparse_coo_from_numpy([2, 3], values, indices, device)
    else:
        sparse = ort.SparseTensor.sparse_csr_from_numpy([2, 3], values, np.array([1, 2]), np.array([0, 1, 2]), device)
    session, b = session_of(ort, models.sparse_product()), np.float32([[1, 2], [3, 4], [5, 6]])
    assert session.get_inputs()[0].type == "sparse_tensor(float)"
    value = ort.OrtValue.ort_value_from_sparse_tensor(sparse)
    (found,) = session.run(None, {"a": value, "b": b})
    assert found.tolist() == [[9, 12], [20, 24]]
    with pytest.raises(state.InvalidArgument, match="expected to be of type: 4 but received a tensor"):
        session.run(None, {"a": np.zeros((2, 3), np.float32), "b": b})
