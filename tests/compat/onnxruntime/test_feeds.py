"""Feeds that onnxruntime takes though they are not what the model declares, beside it where it is installed."""

from __future__ import annotations

import pickle
import warnings
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import treadle
import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models
from treadle.compat.onnxruntime.capi import onnxruntime_pybind11_state as own_state
from treadle.errors import InputError


def session_of(ort: ModuleType, model: bytes) -> Any:
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "given",
    [
        np.array([1.5, True, np.int64(3), None, b"a", "ä"], object),
        [1.5, True, np.int64(3), None, b"a", "ä"],
    ],
)
def test_objects_are_texts_by_str(ort: ModuleType, given: Any) -> None:
    """
    In the second run too, when the shape is known.
    """
    session = session_of(ort, models.same(models.STRING, ["n"]))
    for _ in range(2):
        assert session.run(None, {"a": np.array(["x"] * 6, object)})[0].tolist() == ["x"] * 6
        assert session.run(None, {"a": given})[0].tolist() == ["1.5", "True", "3", "None", "b'a'", "ä"]


@pytest.mark.parametrize("given", [range(3), iter([1.0]), memoryview(b"abcd"), b"text", "text", (1.0,)])
def test_what_can_be_iterated_is_no_array(ort: ModuleType, given: Any) -> None:
    with pytest.raises(RuntimeError, match="Input must be a list of dictionaries or a single numpy array"):
        session_of(ort, models.same(models.FLOAT, ["n"])).run(None, {"a": given})


@pytest.mark.parametrize("given", [[5.0], np.float32([5.0]), np.float32([[5.0]])])
def test_a_scalar_may_have_axes(ort: ModuleType, given: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", own.PeerWarning)
        pytest.importorskip("onnxruntime")
        session = session_of(ort, models.same(models.FLOAT, []))
        assert session.run(None, {"a": np.array(5, np.float32)})[0].shape == ()
        (found,) = session.run(None, {"a": given})
    assert (found.shape, found.tolist()) == (np.shape(given), np.array(given).tolist())


def test_axes_of_one_name_may_differ(ort: ModuleType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", own.DimensionWarning)
        session = session_of(ort, models.same(models.FLOAT, ["n", "n"]))
        for shape in ((2, 2), (3, 5), (4, 4)):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            assert np.array_equal(session.run(None, {"a": x})[0], x)


def test_a_dimension_of_several_sizes_is_told_once_or_refused() -> None:
    """onnxruntime takes names of dimensions for comments."""
    model = models.joined(["n", "k"], ["n", 3])
    a, b, c = (np.arange(size * 3, dtype=np.float32).reshape(size, 3) for size in (2, 5, 4))
    session = own.InferenceSession(model, strict=True)
    with pytest.warns(own.DimensionWarning, match="several sizes: n is 2 of the input 'a', but 5 of 'b'"):
        (found,) = session.run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(found, np.concatenate([a, b]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, other in ((b, a), (c, c), (a, c)):
            (found,) = session.run(None, {"a": one, "b": other})
            np.testing.assert_array_equal(found, np.concatenate([one, other]))
    assert session.runs_on == "treadle"
    refusing = pickle.loads(pickle.dumps(own.InferenceSession(model, strict_dims=True)))
    refusing.run(None, {"a": a, "b": a})
    with pytest.raises(own_state.InvalidArgument, match=r"n is 2 of the input 'a', but 5 of 'b'.*strict_dims=True"):
        refusing.run(None, {"a": a, "b": b})
    with pytest.warns(own.DimensionWarning), pytest.raises(own_state.Fail, match=r"do not broadcast|does not fit"):
        own.InferenceSession(models.added(["n", 3], ["n", 3])).run(None, {"a": b, "b": c})


def test_a_session_may_take_names_of_dimensions_for_comments() -> None:
    model = models.joined(["n", "k"], ["n", 3])
    a, b = np.ones((2, 3), np.float32), np.zeros((5, 3), np.float32)
    with pytest.raises(InputError, match=r"'n' is|n = 2"):
        treadle.Session(model).run({"a": a, "b": b})
    session = treadle.Session(model, strict_dims=False)
    assert session.run({"a": a, "b": b})["c"].shape == (7, 3)
    with pytest.raises(InputError, match="strict_dims: wanted True or False"):
        treadle.Session(model, strict_dims=1)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_small_elements_have_the_dtypes_of_ml_dtypes(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    kind = TensorProto.DataType.Value(name.upper().replace("_", ""))
    session = session_of(own, models.same(kind, ["n"]))
    x = np.array([1, 2, 3]).astype(dtype)
    (found,) = session.run(None, {"a": x})
    assert (found.dtype, found.astype(int).tolist()) == (dtype, [1, 2, 3])
    value = own.OrtValue.ortvalue_from_numpy(x)
    (same,) = session.run_with_ort_values(None, {"a": value})
    wanted = (f"tensor({name.replace('_', '')})", kind)
    assert (value.data_type(), value.element_type()) == (same.data_type(), same.element_type()) == wanted
    assert own.OrtValue.ortvalue_from_shape_and_type([2], kind).numpy().dtype == dtype
