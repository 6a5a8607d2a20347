"""Maps as inputs, beside onnxruntime where it is installed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.compat.onnxruntime import models


def session_of(ort: ModuleType, key: int, **vocabulary: Any) -> Any:
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["map"], ["row"], domain="ai.onnx.ml", **vocabulary)
    row = models.tensor("row", TensorProto.FLOAT, None)
    model = models.model([node], [helper.make_value_info("map", kind)], [row], domains=["ai.onnx.ml"])
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def texts(ort: ModuleType) -> Any:
    return session_of(ort, TensorProto.STRING, string_vocabulary=["a", "b"])


def test_a_map_is_a_dict(ort: ModuleType) -> None:
    session = texts(ort)
    assert (session.get_inputs()[0].type, session.get_inputs()[0].shape) == ("map(string,tensor(float))", [])
    for given, row in (
        ({"b": 2.5, "c": 1.0}, [0.0, 2.5]),
        ({"a": True, 2: 3.0}, [1.0, 0.0]),
        ({"a": np.float32(3), "b": 2**80}, [3.0, float(2**80)]),
    ):
        (found,) = session.run(None, {"map": given})
        assert (found.tolist(), found.dtype) == ([row], np.float32)
    numbers = session_of(ort, TensorProto.INT64, int64_vocabulary=[5, 7])
    assert numbers.run(None, {"map": {np.int64(7): 1, True: 2}})[0].tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({}, "RuntimeError", "Size of dictionary is empty, unable to run the prediction."),
        ({1: 2.0}, "InvalidArgument", r"Actual: \(\(map\(int64,tensor\(float\)\)\)\) , expected: \(\(map\(string,"),
        ({2: 3.0, "a": 1.0}, "RuntimeError", "Unexpected key type  <class 'str'>, it cannot be linked"),
        ({1.5: 1.0}, "RuntimeError", "Unexpected key type  <class 'float'>"),
        ({2**70: 1.0}, "RuntimeError", "Unexpected key type  <class 'int'>"),
        ({"a": "x"}, "RuntimeError", "Unexpected value type  <class 'str'>, it cannot be linked to C type string"),
        ({"a": None}, "RuntimeError", "Unexpected value type  <class 'NoneType'>"),
        ({"a": np.ones(1)}, "Fail", "<class 'TypeError'>: "),
        ({"a": 10**400}, "Fail", "<class 'OverflowError'>: int too large to convert to float"),
        (np.ones(2, np.float32), "InvalidArgument", "expected to be of type: 1 but received a tensor"),
        ([{"a": 1.0}], "RuntimeError", "."),
        (5, "RuntimeError", "Unable to handle object of type <class 'int'>"),
    ],
)  # fmt: skip
def test_what_is_no_such_map_has_the_same_error(ort: ModuleType, given: Any, kind: str, message: str) -> None:
    session = texts(ort)
    with pytest.raises(Exception, match=message) as caught:
        session.run(None, {"map": given})
    assert type(caught.value).__name__ == kind
