"""OrtValue and IOBinding: most cases are also run on onnxruntime itself, where it is installed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models

X = np.ones((2, 3), np.float32)
I = np.arange(10).reshape(2, 5)  # noqa: E741
Y = np.tile(np.float32([12, 15, 18, 21]), (2, 1))


def bound(ort: ModuleType) -> tuple[Any, Any]:
    """A session, and a binding of its inputs."""
    session = ort.InferenceSession(models.two_outputs(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_input("i", ort.OrtValue.ortvalue_from_numpy(I))
    return session, binding


def test_a_value_has_the_memory_of_its_array(ort: ModuleType) -> None:
    array = X.copy()
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert (value.data_type(), value.element_type(), value.shape(), value.tensor_size_in_bytes()) == (
        "tensor(float)", 1, [2, 3], 24,
    )  # fmt: skip
    assert (value.device_name(), value.has_value(), value.is_tensor()) == ("cpu", True, True)
    assert (value.is_sparse_tensor(), value.is_tensor_sequence()) == (False, False)
    assert value.data_ptr() == array.ctypes.data
    array[0, 0] = 5
    assert value.numpy()[0, 0] == 5
    value.update_inplace(np.zeros((2, 3), np.float32))
    assert not array.any()
    with pytest.raises(RuntimeError, match="The input size of numpy arrays does not match the size of the OrtValue"):
        value.update_inplace(np.zeros((3, 3), np.float32))
    value.update_inplace(ort.OrtValue.ortvalue_from_numpy(X))
    assert array.all()
    with pytest.raises(TypeError, match=r"data must be a numpy\.ndarray or an OrtValue"):
        value.update_inplace([1])


def test_values_of_shapes_and_types(ort: ModuleType) -> None:
    made = ort.OrtValue.ortvalue_from_shape_and_type
    assert made([2, 3], np.float32).numpy().shape == (2, 3)
    assert made([2, 3], 7).data_type() == "tensor(int64)"
    half = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.uint16), 16)
    assert (half.data_type(), half.element_type(), half.shape()) == ("tensor(bfloat16)", 16, [2])


def test_what_is_no_value(ort: ModuleType) -> None:
    made = ort.OrtValue.ortvalue_from_numpy
    with pytest.raises(RuntimeError, match="currently only supported from non-string numpy arrays"):
        made([1, 2])
    with pytest.raises(RuntimeError, match="currently only supported from non-string numpy arrays"):
        made(np.array(["a"]))
    with pytest.raises(RuntimeError, match="Can't allocate memory on the device"):
        made(X, "cuda", 0)
    with pytest.raises(ValueError, match="`Provided ortvalue` needs to be"):
        ort.OrtValue(3)
    with pytest.raises(RuntimeError, match=r"Tensor shape\.Size\(\) must be >= 0"):
        ort.OrtValue.ortvalue_from_shape_and_type([2, -1], np.float32)
    with pytest.raises(RuntimeError, match="tensor type 99 is not supported"):
        ort.OrtValue.ortvalue_from_shape_and_type([2], 99)


def test_the_number_of_the_cpu_does_not_matter(ort: ModuleType) -> None:
    assert ort.OrtValue.ortvalue_from_numpy(X, "cpu", 3).numpy().tolist() == X.tolist()
    assert ort.OrtDevice.make("cpu", 3).device_id() == 3
    session, binding = bound(ort)
    binding.bind_output("y", "cpu", 3)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], Y)


def test_values_that_are_no_tensors(ort: ModuleType) -> None:
    """
    The results of classifiers, and sequences.
    """
    x = {"x": ort.OrtValue.ortvalue_from_numpy(X)}

    def first(model: bytes) -> Any:
        return ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run_with_ort_values(None, x)[0]

    maps, rows = first(models.classifier()), first(models.rows())
    assert (maps.data_type(), maps.is_tensor_sequence(), maps.is_tensor()) == (
        "seq(map(int64,tensor(float)))", False, False,
    )  # fmt: skip
    assert (rows.data_type(), rows.is_tensor_sequence(), rows.element_type()) == ("seq(tensor(float))", True, 1)


def test_dtypes_are_not_mixed() -> None:
    value = own.OrtValue.ortvalue_from_numpy(X.copy())
    with pytest.raises(RuntimeError, match="wanted an array of float32, got one of float64"):
        value.update_inplace(np.zeros((2, 3)))


def test_runs_with_values(ort: ModuleType) -> None:
    session, _ = bound(ort)
    feeds = {"x": ort.OrtValue.ortvalue_from_numpy(X), "i": ort.OrtValue.ortvalue_from_numpy(I)}
    (result,) = session.run_with_ort_values(["y"], feeds)
    assert isinstance(result, ort.OrtValue)
    np.testing.assert_array_equal(result.numpy(), Y)
    assert len(session.run_with_ort_values(None, feeds)) == 2
    np.testing.assert_array_equal(session.run(["y"], feeds)[0], Y)


def test_outputs_left_to_the_binding(ort: ModuleType) -> None:
    session, binding = bound(ort)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), Y)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], Y)
    binding.synchronize_inputs()
    binding.synchronize_outputs()
    binding.clear_binding_outputs()
    assert list(binding.get_outputs()) == []
    with pytest.raises(RuntimeError, match="At least one output should be requested"):
        session.run_with_iobinding(binding)


def test_outputs_in_memory_of_the_caller(ort: ModuleType) -> None:
    session, binding = bound(ort)
    at_address, in_value = np.zeros((2, 4), np.float32), np.zeros((2, 5), np.int64)
    binding.bind_output("y", "cpu", 0, np.float32, [2, 4], at_address.ctypes.data)
    binding.bind_ortvalue_output("j", ort.OrtValue.ortvalue_from_numpy(in_value))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(at_address, Y)
    np.testing.assert_array_equal(in_value, I + I)


def test_inputs_at_an_address(ort: ModuleType) -> None:
    session, binding = bound(ort)
    other = np.full((2, 3), 2, np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, [2, 3], other.ctypes.data)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), 2 * Y)


def test_memory_that_does_not_fit(ort: ModuleType) -> None:
    session, binding = bound(ort)
    memory = np.zeros((3, 4), np.float32)
    binding.bind_output("y", "cpu", 0, np.float32, [3, 4], memory.ctypes.data)
    with pytest.raises(RuntimeError, match=r"has shape \{3,4\} .*but the computed output"):
        session.run_with_iobinding(binding)
    assert not memory.any()
    binding.bind_output("y", "cpu", 0, np.float64, [2, 4], memory.ctypes.data)
    with pytest.raises(RuntimeError, match=r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
        session.run_with_iobinding(binding)


def test_faulty_bindings(ort: ModuleType) -> None:
    session, binding = bound(ort)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: z"):
        binding.bind_cpu_input("z", X)
    binding.bind_cpu_input("x", X.astype(np.float64))
    binding.bind_output("y")
    with pytest.raises(RuntimeError, match="Unexpected input data type"):
        session.run_with_iobinding(binding)
    binding.clear_binding_inputs()
    with pytest.raises(RuntimeError, match="Error in execution"):
        session.run_with_iobinding(binding)
    with pytest.raises(RuntimeError, match="Failed to find input name in the mapping: z"):
        binding.bind_input("z", "cpu", 0, np.float32, [2, 3], X.ctypes.data)
