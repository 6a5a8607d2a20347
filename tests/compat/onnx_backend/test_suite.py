"""treadle as a backend of the onnx package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle.compat.onnx_backend as backend
from tests.models import small
from treadle.errors import InputError

INCOMPATIBLE = {
    "Simple": {"test_gradient_of_add_and_mul_cpu", "test_gradient_of_add_cpu"},  # treadle does not train
    "PyTorchConverted": {  # the slopes of these old models broadcast from the left
        "test_PReLU_1d_multiparam_cpu",
        "test_PReLU_2d_multiparam_cpu",
        "test_PReLU_3d_multiparam_cpu",
    },
    "PyTorchOperator": set(),
}
"""Kind of models in the package's suite -> those that treadle refuses, which the suite skips."""


def test_the_models_of_the_package_give_what_they_should() -> None:
    """
    Its node tests run in tests/models/test_node_cases.py and with `--nodes`; its real models are not in the package.
    """
    program = Path(__file__).parents[2] / "programs" / "backend_suite.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])

    assert {kind: set(each["skipped"]) for kind, each in report.items()} == INCOMPATIBLE
    assert {kind: each["failed"] for kind, each in report.items()} == {kind: [] for kind in INCOMPATIBLE}
    assert sum(each["run"] for each in report.values()) >= 130


def test_outputs_are_found_by_place_and_by_name() -> None:
    """
    Inputs come in the model's order or by name, and options reach the run.
    """
    model = small.add()
    prepared = backend.prepare(model, intra_op=1)
    a, b = np.float32([[1, 2, 3]] * 2), np.float32([[10, 20, 30]] * 2)
    outputs = prepared.run([a, b], intra_op=2)

    assert np.array_equal(outputs[0], a + b)
    assert np.array_equal(outputs[model.graph.output[0].name], a + b)
    assert np.array_equal(backend.run_model(model, {"a": a, "b": b})[0], a + b)


def test_a_node_runs_alone() -> None:
    """
    Of the newest version, or of a stated one.
    """
    x = np.float32([[-1, 2]])
    (found,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    (summed,) = backend.run_node(helper.make_node("ReduceSum", ["x"], ["y"], axes=[1]), {"x": x}, opset_version=11)

    assert found.tolist() == [[0, 2]]
    assert summed.tolist() == [[1]]


def test_models_of_old_operator_sets_are_converted() -> None:
    """
    The onnx package brings a model of operator set 6 to one that treadle knows.
    """
    model = onnx.parser.parse_model(
        '<ir_version: 3, opset_import: ["": 6]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )

    assert backend.is_compatible(model)
    assert backend.run_model(model, np.float32([-1, 2]))[0].tolist() == [0, 2]


def test_what_does_not_fit_is_told() -> None:
    """
    Another device, another number of inputs.
    """
    model = small.add()

    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    assert not backend.supports_device("TPU")
    assert not backend.is_compatible(model, "CUDA")
    with pytest.raises(InputError, match="device: wanted 'CPU', got 'CUDA'"):
        backend.prepare(model, "CUDA")
    with pytest.raises(InputError, match=r"inputs: wanted 2 arrays \(a, b\), got 1"):
        backend.prepare(model).run([np.zeros((2, 3), np.float32)])
