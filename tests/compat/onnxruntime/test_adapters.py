"""Files of LoRA adapters, and runs that take their parameters: what onnxruntime does, and files that both read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle.compat.onnxruntime as own
from tests.models.contrib import Array

PARAMETERS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.float16([1, 2, 3]),
    "count": np.array([5], np.int64),
    "none": np.zeros((0, 2), np.uint8),
}
X = np.ones((2, 3), np.float32)


def model(*, is_optional: bool) -> bytes:
    """x + a, where `a` is an input of its own, or one with an initialiser."""
    takes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in ("x", "a")]
    held = [numpy_helper.from_array(np.zeros((1, 3), np.float32), "a")] if is_optional else []
    gives = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])]
    graph = helper.make_graph([helper.make_node("Add", ["x", "a"], ["y"])], "g", takes, gives, held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def export(ort: Any, path: Path, **arrays: Array) -> None:
    form = ort.AdapterFormat()
    form.set_adapter_version(7)
    form.set_model_version(9)
    form.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()})
    form.export_adapter(str(path))


def check(ort: Any, path: Path) -> None:
    form = ort.AdapterFormat.read_adapter(str(path))
    assert (form.get_format_version(), form.get_adapter_version(), form.get_model_version()) == (1, 7, 9)
    found = form.get_parameters()
    assert found.keys() == PARAMETERS.keys()
    for name, array in PARAMETERS.items():
        assert found[name].data_type() == ort.OrtValue.ortvalue_from_numpy(array).data_type()
        np.testing.assert_array_equal(found[name].numpy(), array)


def test_files_have_what_was_written(ort: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.onnx_adapter"
    export(ort, path, **PARAMETERS)
    check(ort, path)


def test_files_are_those_of_onnxruntime(tmp_path: Path) -> None:
    """Each reads what the other wrote."""
    theirs = pytest.importorskip("onnxruntime")
    export(own, tmp_path / "own", **PARAMETERS)
    export(theirs, tmp_path / "theirs", **PARAMETERS)
    check(theirs, tmp_path / "own")
    check(own, tmp_path / "theirs")


def adapter(ort: Any, path: Path, value: float) -> Any:
    export(ort, path, a=np.full((2, 3), value, np.float32))
    made = ort.LoraAdapter()
    made.Load(str(path))
    return made


def test_the_first_adapter_gives_an_input(ort: Any, tmp_path: Path) -> None:
    """Also one that is fed, which has to be fed where it has no initialiser."""
    session = ort.InferenceSession(model(is_optional=False), providers=["CPUExecutionProvider"])
    adapters = [adapter(ort, tmp_path / str(value), value) for value in (2.0, 5.0)]
    options = ort.RunOptions()
    for each in adapters:
        options.add_active_adapter(each)
    np.testing.assert_array_equal(session.run(None, {"x": X, "a": X}, options)[0], X + 2)
    with pytest.raises(ValueError, match=r"Required inputs \(\['a'\]\) are missing"):
        session.run(None, {"x": X}, options)
    binding = session.io_binding()
    for name in ("x", "a"):
        binding.bind_cpu_input(name, X)
    binding.bind_output("y")
    session.run_with_iobinding(binding, options)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X + 1)


def test_an_input_that_the_model_does_not_have_is_refused(ort: Any, tmp_path: Path) -> None:
    session = ort.InferenceSession(model(is_optional=False), providers=["CPUExecutionProvider"])
    export(ort, tmp_path / "a", zz=X)
    other = ort.LoraAdapter()
    other.Load(str(tmp_path / "a"))
    options = ort.RunOptions()
    options.add_active_adapter(other)
    with pytest.raises(Exception, match="Invalid input name: zz"):
        session.run(None, {"x": X, "a": X}, options)


@pytest.mark.filterwarnings("ignore::treadle.compat.onnxruntime.PeerWarning")
def test_adapters_override_initialisers(tmp_path: Path) -> None:
    """On onnxruntime itself, as all runs that do so."""
    pytest.importorskip("onnxruntime")
    session = own.InferenceSession(model(is_optional=True))
    options = own.RunOptions()
    options.add_active_adapter(adapter(own, tmp_path / "a", 3.0))
    np.testing.assert_array_equal(session.run(None, {"x": X}, options)[0], X + 3)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X)


def _changed(content: bytes, at: int, number: int) -> bytes:
    changed = bytearray(content)
    struct.pack_into("<I", changed, at, number)
    return bytes(changed)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """With one exception and a reason, whatever 4 bytes hold."""
    path = tmp_path / "a"
    export(own, path, **PARAMETERS)
    content = path.read_bytes()
    made = [b"", b"abc", content[: len(content) // 2], onnx.ModelProto(ir_version=8).SerializeToString()]
    numbers = (0, 5, 1 << 30, (1 << 32) - 1)
    made += [_changed(content, at, number) for at in range(0, len(content) - 4, 4) for number in numbers]
    for each in made:
        path.write_bytes(each)
        try:
            own.AdapterFormat.read_adapter(path)
        except RuntimeError as fault:
            assert "cannot be read: " in str(fault)  # noqa: PT017 - some changes are harmless
    with pytest.raises(RuntimeError, match=r"cannot be read: .*No such file"):
        own.LoraAdapter().Load(str(tmp_path / "b"))


def test_what_is_no_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="wanted an OrtValue"):
        own.AdapterFormat().set_parameters({"a": X})
    with pytest.raises(RuntimeError, match="wanted a tensor of one or more dimensions"):
        export(own, tmp_path / "a", a=np.array(1.0))
    with pytest.raises(TypeError, match="wanted a LoraAdapter"):
        own.RunOptions().add_active_adapter(1)
