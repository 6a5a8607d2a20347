"""Sizes of made-up inputs: the least, or large ones for a model that does not fit them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

KERNEL = numpy_helper.from_array(np.ones((1, 1, 10), np.float32), "w")


def treadle(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "treadle", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def windowed(tmp_path: Path) -> str:
    """A model whose first node needs 10 samples."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1, size])
        for name, size in (("x", "t"), ("y", None))
    ]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [KERNEL])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_check_runs_a_model_with_large_sizes(windowed: str) -> None:
    """
    Those that are given stay, also if the model does not fit them.
    """
    done = treadle("check", windowed, "--dim", "n=3", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ending"]) == (0, "usable")
    sizes = report["facts"]["run"]["large_sizes"]
    assert list(sizes) == ["t"]
    assert report["facts"]["run"]["outputs"]["y"]["shape"] == [3, 1, sizes["t"] - 9]

    refused = json.loads(treadle("check", windowed, "--dim", "n=3", "--dim", "t=5", "--json").stdout)
    assert (refused["ending"], refused["stage"]) == ("refused", "run")


@pytest.mark.parametrize("command", ["compare", "run"])
def test_other_commands_say_with_which_sizes(windowed: str, command: str) -> None:
    done = treadle(command, windowed, *(["--runs", "1"] if command == "run" else []))
    assert done.returncode == 0, done.stderr
    assert "does not fit the least sizes; ran with --dim n=" in done.stderr

    assert "ran with" not in treadle(command, windowed, "--dim", "t=12").stderr
    wrong = treadle(command, windowed, "--dim", "t=5")
    assert wrong.returncode == 1
    assert "spans 10 elements" in wrong.stderr
