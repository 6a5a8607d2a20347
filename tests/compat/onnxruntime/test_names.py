"""The public names of onnxruntime: each is here too, or is listed with the reason why it is not.

onnxruntime itself, where it is installed, has the names of its compiled code for devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models
from treadle.compat.onnxruntime import capi as own_capi
from treadle.compat.onnxruntime import peer
from treadle.compat.onnxruntime.capi import onnxruntime_pybind11_state as own_state

DEVICES = "devices and their plug-ins: treadle runs on the CPU"
MODULES = "modules that onnxruntime imports, no part of its interface"
CONTEXTS = "contexts of plug-ins for devices"

ABSENT = {
    "onnxruntime": {"contextlib": MODULES, "onnxruntime_validation": MODULES},
    "InferenceSession": {
        "get_input_epdevices": DEVICES,
        "get_provider_graph_assignment_info": DEVICES,
        "release_captured_graph": DEVICES,
        "run_with_ortvaluevector": "training",
    },
    "SessionOptions": {
        "add_provider_for_devices": DEVICES,
        "clear_ep_context_data_read_func": CONTEXTS,
        "set_ep_context_data_read_func": CONTEXTS,
    },
}  # fmt: skip


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_every_name_is_here_or_has_a_reason() -> None:
    """
    Members of enumerations are compared with those of IntEnum, whose instances have name and value.
    """
    real = pytest.importorskip("onnxruntime")
    if real.__version__ != own.__version__:
        pytest.skip(f"the names of onnxruntime {own.__version__} are served, {real.__version__} is installed")
    absent = {"onnxruntime": public(real) - public(own) - peer.ITS_OWN.keys() - {"capi"}}
    for name in public(real) & public(own):
        theirs, ours = getattr(real, name), getattr(own, name)
        if isinstance(theirs, type):
            absent[name] = {each for each in public(theirs) if not hasattr(ours, each)} - {"name", "value"}
    assert {name: found for name, found in absent.items() if found} == {
        name: set(reasons) for name, reasons in ABSENT.items()
    }


@pytest.mark.parametrize("module", ["_pybind_state", "onnxruntime_pybind11_state", "onnxruntime_inference_collection"])
def test_every_name_of_the_modules_of_capi_is_there(module: str) -> None:
    """
    Modules, and names that typing has, are what these modules import.
    """
    real = pytest.importorskip("onnxruntime")
    if real.__version__ != own.__version__:
        pytest.skip(f"the names of onnxruntime {own.__version__} are served, {real.__version__} is installed")
    theirs, ours = getattr(real.capi, module), getattr(own_capi, module)
    imported = {"Any", "Callable", "Sequence", "IntEnum", "C", "annotations", "collections", "np", "os", "platform"}
    imported |= {"typing", "warnings", "weakref"}
    missing = {name for name in public(theirs) - imported if not hasattr(ours, name)}
    assert missing == set()


def test_names_of_onnxruntime_alone_are_refused_with_their_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "load", lambda: None)
    for name, purpose in peer.ITS_OWN.items():
        with pytest.raises(AttributeError, match=f"{name}.*is for {purpose}, and onnxruntime itself"):
            getattr(own_state, name)


def test_names_of_onnxruntime_alone_are_names_that_it_has() -> None:
    real = pytest.importorskip("onnxruntime")
    if real.__version__ != own.__version__:
        pytest.skip(f"the names of onnxruntime {own.__version__} are served, {real.__version__} is installed")
    served = {name for name in peer.ITS_OWN if hasattr(own_state, name)}
    assert served == peer.ITS_OWN.keys()


def test_what_is_for_its_own_formats_is_onnxruntimes_own() -> None:
    real = pytest.importorskip("onnxruntime")
    assert own.ModelCompiler is real.ModelCompiler
    assert own_state.get_all_operator_schema is real.capi.onnxruntime_pybind11_state.get_all_operator_schema
    with pytest.raises(AttributeError, match="has no attribute 'nothing': onnxruntime may have it"):
        _ = own.nothing


def test_sparse_tensors_hold_values_and_indices(ort: Any) -> None:
    real = ort
    device = real.OrtDevice.make("cpu", 0)
    values = np.array([1.0, 2.0], np.float32)
    sparse = real.SparseTensor.sparse_coo_from_numpy(
        np.array([3, 4], np.int64), values, np.array([0, 5], np.int64), device
    )
    assert (sparse.format().name, sparse.dense_shape(), sparse.data_type(), sparse.device_name()) == (
        "ORT_SPARSE_COO", [3, 4], "sparse_tensor(float)", "cpu",
    )  # fmt: skip
    assert sparse.values().tolist() == [1, 2]
    assert sparse.as_coo_view().indices().tolist() == [0, 5]
    value = real.OrtValue.ort_value_from_sparse_tensor(sparse)
    assert (value.is_sparse_tensor(), value.is_tensor(), value.data_type()) == (True, False, "sparse_tensor(float)")
    assert value.as_sparse_tensor().dense_shape() == [3, 4]
    with pytest.raises(RuntimeError, match="not contain SparseTensor"):
        real.OrtValue.ortvalue_from_numpy(values).as_sparse_tensor()


def test_compressed_rows_have_two_kinds_of_indices(ort: Any) -> None:
    sparse = ort.SparseTensor.sparse_csr_from_numpy(
        np.array([2, 3], np.int64), np.array([1.0, 2.0], np.float32), np.array([0, 2], np.int64),
        np.array([0, 1, 2], np.int64), ort.OrtDevice.make("cpu", 0),
    )  # fmt: skip
    view = sparse.as_csrc_view()
    assert (view.inner().tolist(), view.outer().tolist()) == ([0, 2], [0, 1, 2])
    with pytest.raises(RuntimeError):
        sparse.as_coo_view()


def test_indices_that_do_not_fit_are_refused() -> None:
    device = own.OrtDevice.make("cpu", 0)
    with pytest.raises(RuntimeError, match="outside of"):
        own.SparseTensor.sparse_coo_from_numpy([3, 4], np.ones(1), np.array([12]), device)
    with pytest.raises(RuntimeError, match="for each value"):
        own.SparseTensor.sparse_coo_from_numpy([3, 4], np.ones(2), np.array([1]), device)
    with pytest.raises(RuntimeError, match="no matrix"):
        own.SparseTensor.sparse_csr_from_numpy([3, 4], np.ones(2), np.array([1, 2]), np.array([0, 2]), device)


def test_inputs_and_outputs_are_in_the_memory_of_the_cpu(ort: Any) -> None:
    session = ort.InferenceSession(models.two_outputs(), providers=["CPUExecutionProvider"])
    infos = [*session.get_input_memory_infos(), *session.get_output_memory_infos()]
    assert [(each.name, each.device_id, each.device_vendor_id) for each in infos] == [("Cpu", 0, 0)] * 4
    assert {each.device_mem_type.name for each in infos} == {"DEFAULT"}
    assert session.get_tuning_results() == []
