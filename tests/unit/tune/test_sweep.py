"""Sweeps over thread settings: of this engine in this process, of others in processes of their own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.models import small

import treadle
from treadle.errors import InputError
from treadle.tune.sweep import Setting, interval, sweep
from treadle.tune.turns import turn

INPUTS = {"x": np.ones((1, 3, 19, 19), np.float32)}
SETTINGS = [Setting("treadle", 1, 1), Setting("treadle", 2, 2)]


@pytest.fixture(scope="module")
def session() -> treadle.Session:
    return treadle.Session(small.convolutional())


@pytest.mark.parametrize("clients", [1, 3])
def test_each_setting_has_a_median_inside_its_interval(session: treadle.Session, clients: int) -> None:
    found = sweep(session, INPUTS, SETTINGS, clients=clients, seconds=0.2)
    assert [each.setting for each in found.measured] == SETTINGS
    for each in found.measured:
        assert 0 < each.low_ns <= each.median_ns <= each.high_ns
        assert each.runs_per_second > 0
    assert found.best().setting in SETTINGS
    assert found.engines == ["treadle"]


def test_an_engine_that_cannot_be_measured_is_refused_with_its_reason(session: treadle.Session) -> None:
    """The others are measured all the same."""
    settings = [*SETTINGS, Setting("onnxruntime", 1, 1)]
    found = sweep(session, INPUTS, settings, model="/nowhere/model.onnx", seconds=0.1)
    assert [each.setting for each in found.measured] == SETTINGS
    assert set(found.refused) == {"onnxruntime"}
    assert found.refused["onnxruntime"]


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
def test_another_engine_is_measured_beside_this_one(session: treadle.Session, tmp_path: Path) -> None:
    onnx.save(small.convolutional(), tmp_path / "small.onnx")
    settings = [*SETTINGS, Setting("onnxruntime", 1, 1), Setting("onnxruntime", 2, 2)]
    found = sweep(session, INPUTS, settings, model=str(tmp_path / "small.onnx"), seconds=0.2)
    assert found.refused == {}
    assert {each.setting for each in found.measured} == set(settings)


def test_wrong_inputs_are_refused(session: treadle.Session) -> None:
    with pytest.raises(InputError, match="missing"):
        sweep(session, {}, SETTINGS, seconds=0.1)


def test_a_turn_calls_each_client_and_leaves_out_its_first_run() -> None:
    calls: list[int] = []
    assert len(turn(lambda: calls.append(1), clients=3, seconds=0, least=4)) == 9
    assert len(calls) == 12


def test_a_run_that_fails_ends_all_clients() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        turn(fails, clients=4, seconds=60)


def test_the_interval_holds_the_median_and_shrinks_with_more_runs() -> None:
    values = np.arange(10_000.0)
    few, many = interval(values[:11]), interval(values)
    assert few[0] <= 5 <= few[1]
    assert few == (2.0, 9.0)
    assert (many[1] - many[0]) / 10_000 < (few[1] - few[0]) / 11
    assert interval(np.array([3.0])) == (3.0, 3.0)
