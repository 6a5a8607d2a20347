"""Profiles of sessions, beside onnxruntime's where it is installed."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models

FEEDS = {"x": np.ones((2, 3), np.float32), "i": np.arange(10).reshape(2, 5)}


def profiled(ort: ModuleType, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    return ort.InferenceSession(models.two_outputs(), options, providers=["CPUExecutionProvider"])


def rows_of(path: str, kind: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(Path(path).read_text()) if row["cat"] == kind]


def test_a_profile_has_the_nodes(ort: ModuleType, tmp_path: Path) -> None:
    session = profiled(ort, tmp_path)
    session.run(None, FEEDS)
    assert session.get_profiling_start_time_ns() > 0
    path = session.end_profiling()
    assert re.fullmatch(r"profile_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d+\.json", Path(path).name)
    rows = rows_of(path, "Node")
    assert "mm_kernel_time" in {row["name"] for row in rows}
    assert {"ts", "dur", "pid", "tid", "args"} <= set(rows[0])
    assert session.end_profiling() == ""
    plain = ort.InferenceSession(models.two_outputs(), providers=["CPUExecutionProvider"])
    assert plain.end_profiling() == ""


def test_a_profile_has_the_load_and_each_run(ort: ModuleType, tmp_path: Path) -> None:
    session = profiled(ort, tmp_path)
    for _ in range(3):
        session.run(None, FEEDS)
    rows = rows_of(session.end_profiling(), "Session")
    names = [row["name"] for row in rows]
    assert (names.count("session_initialization"), names.count("model_run")) == (1, 3)
    begin = next(row["ts"] + row["dur"] for row in rows if row["name"] == "session_initialization")
    assert all(row["ts"] >= begin for row in rows if row["name"] == "model_run")


def test_several_sessions_may_be_profiled(ort: ModuleType, tmp_path: Path) -> None:
    """
    A profile goes on when another one ends.
    """
    (tmp_path / "other").mkdir()
    first, second = profiled(ort, tmp_path), profiled(ort, tmp_path / "other")
    first.run(None, FEEDS)
    assert rows_of(first.end_profiling(), "Node")
    for _ in range(2):
        second.run(None, FEEDS)
    names = [row["name"] for row in rows_of(second.end_profiling(), "Node")]
    assert names.count("mm_kernel_time") >= 2


def test_a_session_that_goes_writes_its_file(ort: ModuleType, tmp_path: Path) -> None:
    session = profiled(ort, tmp_path)
    session.run(None, FEEDS)
    del session
    gc.collect()
    (path,) = tmp_path.iterdir()
    assert rows_of(str(path), "Node")


def test_a_process_that_ends_writes_its_file(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from tests.compat.onnxruntime import test_profiles as tests
import treadle.compat.onnxruntime as ort
session = tests.profiled(ort, Path({str(tmp_path)!r}))
session.run(None, tests.FEEDS)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
    (path,) = tmp_path.iterdir()
    assert rows_of(str(path), "Node")


def test_a_load_that_fails_leaves_no_recording(tmp_path: Path) -> None:
    options = own.SessionOptions()
    options.enable_profiling = True
    with pytest.raises(Exception, match="INVALID_PROTOBUF"):
        own.InferenceSession(b"no model", options)
    with treadle.trace(tmp_path / "run.json"), pytest.raises(RuntimeError, match="a trace is being recorded already"):
        profiled(own, tmp_path)
    profiled(own, tmp_path).end_profiling()
