"""`treadle check`: what becomes of models that are not trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.compat.onnxruntime import models
from tests.models import small
from tests.unit.cli.command import treadle

from treadle.cli.check import limited


def check(path: Path | str, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = treadle("check", str(path), "--json", *arguments)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"stderr": done.stderr}


def save(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def test_a_sound_model_is_usable(tmp_path: Path) -> None:
    """
    All stages are complete; the report has inputs, ops, the size of constants, and the outputs of a run.
    """
    code, report = check(save(small.convolutional(), tmp_path), "--dim", "n=2")

    assert code == 0
    assert report["ending"] == "usable"
    assert list(report["facts"]) == ["read", "compile", "run"]
    assert report["facts"]["read"]["ops"]["conv"] >= 1
    assert report["facts"]["read"]["constant_bytes"] > 0
    assert report["facts"]["run"]["outputs"]["y"]["shape"] == [2, 10]


@pytest.mark.parametrize(
    ("model", "kind"), [(models.element(), "seq(tensor(float))"), (models.same(17, ["n"]), "tensor(float8e4m3fn)")]
)
def test_a_model_whose_inputs_cannot_be_made_up_is_read(tmp_path: Path, model: bytes, kind: str) -> None:
    """
    The verdict says which inputs are no tensors, and so do other commands.
    """
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    code, report = check(path)

    assert code == 1
    assert (report["ending"], report["stage"]) == ("inputs", "compile")
    assert report["facts"]["read"]["inputs"][0][1] == kind
    assert f"({kind})" in report["message"]
    done = treadle("compare", str(path))
    assert done.returncode == 1
    assert f"is of type {kind}: commands read and make up tensors" in done.stderr


def test_it_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Neither a kernel nor an artifact gets into the cache folder.
    """
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))

    assert check(save(small.convolutional(), tmp_path))[0] == 0
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x07\x3a\xff\xff\xff\xff\x0f"])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    """
    The typed error is the message, and reading is the stage.
    """
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    code, report = check(path)

    assert code == 1
    assert (report["ending"], report["stage"]) == ("refused", "read")
    assert report["message"].startswith("ModelFormatError: ")


def grows(size: int) -> onnx.ModelProto:
    """A model whose one output has `size` floats."""
    graph = helper.make_graph(
        [helper.make_node("Expand", ["x", "shape"], ["y"])],
        "grows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size])],
        [helper.make_tensor("shape", TensorProto.INT64, [1], np.array([size]).tobytes(), raw=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_that_needs_more_memory_than_the_limit_says_so(tmp_path: Path) -> None:
    """
    256 MiB are usable within 1 GiB and not within 128 MiB, where the run is what fails.
    """
    path = save(grows(1 << 26), tmp_path)

    assert check(path, "--memory", "1024", "--seconds", "300")[0] == 0
    code, report = check(path, "--memory", "128")
    assert code == 1
    assert (report["ending"], report["stage"]) == ("memory", "run")


def endless() -> onnx.ModelProto:
    """A model whose one node is a loop without end."""
    scalar = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["goes_on"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            scalar("i", TensorProto.INT64, []),
            scalar("going", TensorProto.BOOL, []),
            scalar("v", TensorProto.FLOAT, [1]),
        ],
        [scalar("goes_on", TensorProto.BOOL, []), scalar("w", TensorProto.FLOAT, [1])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)],
        "endless",
        [scalar("x", TensorProto.FLOAT, [1])],
        [scalar("y", TensorProto.FLOAT, [1])],
        [helper.make_tensor("true", TensorProto.BOOL, [], [1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_that_never_ends_is_stopped(tmp_path: Path) -> None:
    """
    The process is killed when its time is over.
    """
    code, report = check(save(endless(), tmp_path), "--seconds", "5")

    assert code == 1
    assert report["ending"] == "time"
    assert report["message"] == "it was not done after 5 s"


def test_the_start_of_the_process_takes_no_time_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its time begins when it says that it is ready, before it opens the model.
    """
    program = 'import time; time.sleep(3); print(\'{"stage": "ready"}\', flush=True); time.sleep(60)'
    monkeypatch.setattr(limited, "_PROGRAM", program.replace("{", "{{").replace("}", "}}"))
    verdict = limited.check("model.onnx", {}, 1, 1 << 30)
    assert (verdict.ending, verdict.facts) == ("time", {})

    monkeypatch.setattr(
        limited, "_PROGRAM", program.replace("time.sleep(60)", "").replace("{", "{{").replace("}", "}}")
    )
    assert limited.check("model.onnx", {}, 2, 1 << 30).ending == "crash", "it was not stopped"


def test_files_that_are_programs_are_not_judged(tmp_path: Path) -> None:
    """
    A .pt file is refused before it is opened.
    """
    code, report = check(tmp_path / "model.pt")

    assert code == 1
    assert "PyTorch's files are programs" in report["stderr"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", "the process ended by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "the process ended by SIGKILL"),
        ("raise SystemExit(3)", "the process ended with exit code 3"),
        ('print(\'{"stage": "fault", "error": "KeyError", "message": "x"}\')', "KeyError: x"),
    ],
)
def test_a_process_that_fails_is_told_from_a_model_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    """
    Signals, exit codes and untyped errors are faults of treadle: the verdict is a crash, in the stage not complete.
    """
    monkeypatch.setattr(limited, "_PROGRAM", program.replace("{", "{{").replace("}", "}}"))
    verdict = limited.check("model.onnx", {}, 60, 1 << 30)

    assert (verdict.ending, verdict.stage, verdict.message) == ("crash", "read", message)


def test_the_end_of_cpu_time_is_told_from_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The system's own limit ends a process that computes, and the verdict is time; a process killed otherwise, as where
    the system runs out of memory, is a crash.
    """
    program = "from treadle.cli.check.judge import _limit; _limit(3, 1 << 30)\nwhile True: pass"
    monkeypatch.setattr(limited, "_PROGRAM", program)
    verdict = limited.check("model.onnx", {}, 60, 1 << 30)

    assert (verdict.ending, verdict.stage) == ("time", "read")
