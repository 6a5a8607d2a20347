"""Frozen TensorFlow graphs are kept on disk in their compiled form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle
from tests.models.second_process import run_in_process
from tests.models.test_stored_plans import assert_same_bits
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle.dtypes import f32
from treadle.errors import ModelError

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for this test, filled by this process."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    return tmp_path / "cache"


def layers(rows: int | None, features: int | None = 16) -> Writer:
    """Two products of a placeholder [rows, features]; the first result is an output too if it is asked for."""
    write = Writer()
    x = write.input("x", (rows, features))
    hidden = write.node("Relu", write.node("MatMul", x, write.weights(16, 32)), name="hidden")
    write.node("MatMul", hidden, write.weights(32, 8), name="y")
    return write


def unranked() -> Writer:
    """A placeholder of which only the dtype is known."""
    write = Writer()
    write.node("Softmax", write.input("x", None), name="y")
    return write


def saved(tmp_path: Path, write: Writer) -> Path:
    path = tmp_path / "model.pb"
    path.write_bytes(write.graph.SerializeToString())
    return path


def numbers(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [4, None])
@pytest.mark.parametrize("form", ["file", "text", "bytes"])
def test_a_second_session_compiles_nothing(tmp_path: Path, rows: int | None, form: str) -> None:
    """For fixed sizes and for open ones; its inputs and outputs are the same."""
    write = layers(rows)
    path = saved(tmp_path, write)
    model: Path | bytes = path
    if form == "text":
        model = path.with_suffix(".pbtxt")
        model.write_text(str(write.graph))
    elif form == "bytes":
        model = path.read_bytes()
    first, second = treadle.Session(model), treadle.Session(model)

    for number in (4,) if rows == 4 else (1, 4, 70):
        assert_same_bits(first, second, {"x": numbers(number, 16)})
    assert (first.compiles, second.compiles) == (1, 0)
    assert (first.inputs, first.outputs) == (second.inputs, second.outputs)
    assert second.node_intra_op == {}
    assert [node.op for node in second.graph.nodes] == [node.op for node in first.graph.nodes]


@pytest.mark.parametrize("rows", [4, None])
def test_a_second_process_reads_no_graph(tmp_path: Path, rows: int | None) -> None:
    """It imports neither protobuf nor LLVM nor a pass."""
    path = saved(tmp_path, layers(rows))
    given = {"x": numbers(4, 16)}
    wanted = treadle.Session(path).run(given)
    found = run_in_process(path, [given], tmp_path)

    assert (found.compiles, found.imported) == (0, [])
    assert found.outputs[0]["y"].tobytes() == wanted["y"].tobytes()


def test_shapes_that_are_not_declared_are_stored_by_form(tmp_path: Path) -> None:
    """The first shape has a plan for itself, those that differ from it one together; a later process finds both."""
    path = saved(tmp_path, unranked())
    first = treadle.Session(path)
    runs = [{"x": numbers(*shape)} for shape in ((2, 8), (3, 8), (5, 8), (2, 3, 8))]
    wanted = [first.run(run)["y"].tobytes() for run in runs]
    found = run_in_process(path, runs, tmp_path)

    assert first.compiles == 3
    assert (found.compiles, found.imported) == (0, [])
    assert [each["y"].tobytes() for each in found.outputs] == wanted


def test_plans_of_a_form_can_be_shown(tmp_path: Path) -> None:
    """A session that found them on disk compiles them again, once, when it is asked for them."""
    path = saved(tmp_path, unranked())
    first, second = treadle.Session(path), treadle.Session(path)
    for session in (first, second):
        for number in (2, 3, 5):
            session.run({"x": numbers(number, 8)})
    assert (first.compiles, second.compiles) == (2, 0)

    assert [plan.guards for plan in second.open_plans()] == [plan.guards for plan in first.open_plans()]
    assert len(second.plans()) == len(first.plans())
    assert second.compiles == 2


def test_chosen_tensors_have_artifacts_of_their_own(tmp_path: Path) -> None:
    """`inputs` and `outputs` are part of the name; a choice is found again."""
    path = saved(tmp_path, layers(None))
    given = {"x": numbers(3, 16)}
    hidden = {"hidden": numbers(3, 32)}
    for _ in range(2):
        assert list(treadle.Session(path, outputs=["hidden"]).run(given)) == ["hidden"]
        assert list(treadle.Session(path, inputs=["hidden"]).run(hidden)) == ["y"]
        assert list(treadle.Session(path).run(given)) == ["y"]

    assert treadle.Session(path, outputs=["hidden"]).compiles == 0
    assert treadle.Session(path, outputs=("y", "hidden")).compiles == 1
    assert treadle.Session(path, inputs=["hidden"]).compiles == 0


def test_a_name_says_which_front_end_reads_the_file(tmp_path: Path) -> None:
    """The bytes of a frozen graph are refused under the name of an ONNX model, whatever is on disk."""
    path = saved(tmp_path, layers(None))
    treadle.Session(path)
    other = tmp_path / "model.onnx"
    other.write_bytes(path.read_bytes())

    with pytest.raises(ModelError):
        treadle.Session(other)


@pytest.mark.parametrize("fault", ["record", "emptied", "of another model"])
def test_a_damaged_artifact_is_compiled_again(tmp_path: Path, folder: Path, fault: str) -> None:
    """The same bits come out, and the next session finds the new artifact."""
    path = saved(tmp_path, layers(None))
    given = {"x": numbers(3, 16)}
    wanted = treadle.Session(path).run(given)
    file = max(folder.iterdir(), key=lambda one: one.stat().st_size)
    content = bytearray(file.read_bytes())
    if fault == "record":
        content[content.index(b'"template":') + 3] ^= 1
        file.write_bytes(content)
    elif fault == "emptied":
        file.write_bytes(b"")
    else:
        treadle.Session(path, math="exact")
        max(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns).rename(file)

    sessions = [treadle.Session(path) for _ in range(2)]
    assert [session.compiles for session in sessions] == [1, 0]
    assert sessions[0].run(given)["y"].tobytes() == wanted["y"].tobytes()


@pytest.mark.parametrize("declared", [True, False], ids=["open", "unranked"])
def test_processes_may_store_one_model_at_once(tmp_path: Path, *, declared: bool) -> None:
    """All give the same bits, whoever writes last, and a later session compiles nothing."""
    path = saved(tmp_path, layers(None) if declared else unranked())
    script = (
        "import sys, numpy, treadle\n"
        "sys.stdin.read()\n"
        f"session = treadle.Session({str(path)!r})\n"
        "for rows in (2, 3, 5): out = session.run({'x': numpy.ones((rows, 16), numpy.float32)})['y']\n"
        "print(out.tobytes().hex())"
    )
    command = [sys.executable, "-c", script]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:  # all are at the same line when the last one has started
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]

    session = treadle.Session(path)
    for rows in (2, 3, 5):
        out = session.run({"x": np.ones((rows, 16), np.float32)})["y"]
    assert session.compiles == 0
    assert printed == [out.tobytes().hex() + "\n"] * 3


def test_a_changed_file_is_another_model(tmp_path: Path) -> None:
    """A session of the old file keeps its plan, but refuses to compile what is no longer there."""
    path = saved(tmp_path, layers(None))
    treadle.Session(path)
    old = treadle.Session(path)
    saved(tmp_path, unranked())

    assert treadle.Session(path).run({"x": numbers(2, 2, 8)})["y"].shape == (2, 2, 8)
    assert old.run({"x": numbers(3, 16)})["y"].shape == (3, 8)
    with pytest.raises(ModelError, match="was changed after its session was made"):
        _ = old.graph


def test_sizes_that_one_plan_cannot_serve_are_stored_too(tmp_path: Path) -> None:
    """The reason is kept with the names of the inputs: a later process neither reads nor analyses the graph."""
    write = Writer()
    x = write.input("x", (None, 4))
    write.node("AddV2", x, write.constant(numbers(3, 4)), name="y", T=f32)  # fits 3 rows, and 1
    path = saved(tmp_path, write)
    first, second = treadle.Session(path), treadle.Session(path)

    assert str(second.why_per_size()) == str(first.why_per_size()) != "None"
    assert_same_bits(first, second, {"x": numbers(3, 4)})
