"""The constants of a model that is being compiled are written to its artifact and read from there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small
from treadle import driver
from treadle.compile import runner_of
from treadle.errors import InternalError
from treadle.graph.mapping import file_of
from treadle.plan_store import Restored


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own, for models that this process compiles."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model with weights of 64 KB."""
    where = tmp_path / "model.onnx"
    onnx.save(_static(small.branches(width=128)), where)
    return where


def _static(model: onnx.ModelProto) -> onnx.ModelProto:
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = 2
    return model


def _constants(session: treadle.Session) -> list[Any]:
    (runnable,) = runner_of(session).plans.all()
    return list(runnable.executable.layout.kept.arrays)  # type: ignore[attr-defined]


def _unfinished(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if one.name.endswith(".partial")]


def test_a_session_that_compiled_reads_its_constants_from_the_artifact(path: Path, folder: Path) -> None:
    """
    Packed weights are not in memory twice: plan and program read the same bytes of the file.
    """
    session = treadle.Session(path)

    assert all(file_of(array) is not None for array in _constants(session))
    (plan,) = session.plans()
    addresses = {buffer.data.__array_interface__["data"][0] for buffer in plan.buffers if buffer.data is not None}
    assert addresses == {array.__array_interface__["data"][0] for array in _constants(session)}
    assert {id(value.data) for value in plan.places if value.data is not None} == {
        id(buffer.data) for buffer in plan.buffers if buffer.data is not None
    }
    assert _unfinished(folder) == []
    assert isinstance(runner_of(treadle.Session(path)).plans.all()[0], Restored)


def test_plans_for_other_outputs_share_the_constants_in_the_file(path: Path) -> None:
    """
    A plan that is compiled later uses the packed weights that the first one moved to the file.
    """
    session = treadle.Session(path)
    names = [output.name for output in session.outputs]
    inputs = small.inputs_for(onnx.load(path))
    session.run(inputs, outputs=names[:1])
    plans = session.plans()
    first = {id(buffer.data) for buffer in plans[0].buffers if buffer.data is not None and buffer.size >= 4096}
    assert first
    for plan in plans[1:]:
        assert {id(buffer.data) for buffer in plan.buffers if buffer.data is not None and buffer.size >= 4096} <= first


def test_on_a_full_disk_the_session_works_without_an_artifact(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Constants that cannot be written stay in memory; the unfinished file is removed, and one warning says why.
    """
    inputs = small.inputs_for(onnx.load(path))
    with monkeypatch.context() as without:
        without.setenv("TREADLE_CACHE", "off")
        wanted = treadle.Session(path, math="exact").run(inputs)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        session = treadle.Session(path)
    got = session.run(inputs)

    assert all(file_of(array) is None for array in _constants(session))
    assert all(np.allclose(got[name], wanted[name], atol=1e-5) for name in wanted)
    assert _unfinished(folder) == []


def test_a_compilation_that_fails_leaves_no_file(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An error after the constants were written removes the unfinished file.
    """

    def failing(*_: object) -> None:
        assert len(_unfinished(folder)) == 1
        raise InternalError("no code for it")

    monkeypatch.setattr(driver, "assemble", failing)
    with pytest.raises(InternalError, match="no code for it"):
        treadle.Session(path)
    assert _unfinished(folder) == []
