"""`treadle simulate` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from tests.models import small
from tests.unit.cli.command import treadle


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(small.convolutional(), path)
    return str(path)


def test_the_text_has_a_line_for_each_number_of_cores(model: str) -> None:
    """
    And says what holds the largest one.
    """
    done = treadle("simulate", model, "--cores", "4,2", "--memory", "50")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "held by" in lines[3]
    assert [line.split()[0] for line in lines[4:6]] == ["2", "4"]
    assert "What holds it with 4 cores: " in lines[-1]


def test_json_has_the_figures(model: str) -> None:
    """
    One core is as fast as one core.
    """
    done = treadle("simulate", model, "--cores", "1,64", "--clients", "8", "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    one, many = report["cores"]
    assert (one["cores"], one["speedup"], one["held_by"]) == (1, 1.0, "nothing")
    assert 1.0 < many["speedup"] <= 64.0
    assert 0 < report["span_ns"] <= report["work_ns"]


@pytest.mark.parametrize("cores", ["", "0", "2,x", "1025", "-4"])
def test_impossible_numbers_of_cores_are_mistakes_in_usage(model: str, cores: str) -> None:
    """
    Each is named.
    """
    done = treadle("simulate", model, f"--cores={cores}")

    assert done.returncode == 2
    assert "--cores" in done.stderr
    assert "1 to 1024" in done.stderr


def test_a_model_that_runs_in_stages_is_refused(tmp_path: Path) -> None:
    """
    What follows sizes that depend on data is a program of its own.
    """
    path = tmp_path / "stages.onnx"
    onnx.save(small.data_dependent(), path)
    done = treadle("simulate", str(path))

    assert done.returncode == 1
    assert "runs in 2 stages" in done.stderr
