"""`treadle sweep` as a user meets it."""

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


def test_it_prints_a_map_and_writes_a_page(model: str, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    done = treadle("sweep", model, "--seconds", "0.2", "--html", str(page))

    assert done.returncode == 0, done.stderr
    for text in ("one client", "intra_op \\ inter_op", "best: (", "runs/s"):
        assert text in done.stdout
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<b>best</b>" in text
    assert "http" not in text


def test_it_prints_json(model: str) -> None:
    done = treadle("sweep", model, "--seconds", "0.2", "--clients", "2", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["clients"] == 2
    assert found["best"]["treadle"]["engine"] == "treadle"
    assert {(each["intra_op"], each["inter_op"]) for each in found["settings"]} >= {(1, 1)}


@pytest.mark.parametrize("arguments", [["--seconds", "nan"], ["--seconds", "0"], ["--clients", "0"], ["--engine", "x"]])
def test_wrong_usage(model: str, arguments: list[str]) -> None:
    assert treadle("sweep", model, *arguments).returncode == 2
