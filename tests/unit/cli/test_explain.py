"""`treadle explain` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from tests.models import small
from tests.unit.cli.command import treadle


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(small.convolutional(), path)
    return str(path)


def test_it_names_limits_waits_and_advice(model: str) -> None:
    done = treadle("explain", model, "--intra", "2", "--inter", "2")

    assert done.returncode == 0, done.stderr
    for text in ("longest path", "of limit", "conv", "the time of 2 workers", "executing ops", "2 threads "):
        assert text in done.stdout


def test_it_prints_json(model: str) -> None:
    done = treadle("explain", model, "--intra", "1", "--inter", "1", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["threads"] == {"intra_op": 1, "inter_op": 1}
    assert found["advice"].startswith("One thread executes everything")
    assert found["work_ns"] == sum(op["one_thread_ns"] for op in found["ops"])
    assert found["most_from_inter_op"] >= 1


def test_a_model_that_cannot_be_read_is_named() -> None:
    done = treadle("explain", "/nowhere/model.onnx")

    assert done.returncode == 1
    assert "/nowhere/model.onnx" in done.stderr
