"""Files that another process cuts while they are mapped: a typed error instead of the signal SIGBUS."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models.small import FLOAT, ModelWriter
from treadle.errors import ModelError, RunError, TreadleError
from treadle.frontends.onnx import reader

WIDTH, ROWS = 512, 4
X = np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


def two_products() -> onnx.ModelProto:
    w = ModelWriter(3)
    y = w.op("MatMul", w.op("MatMul", "x", w.random(WIDTH, WIDTH)), w.random(WIDTH, WIDTH))
    return w.model({"x": (FLOAT, [ROWS, WIDTH])}, {y: (FLOAT, [ROWS, WIDTH])})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model whose weights are in a file beside it."""
    path = tmp_path / "model.onnx"
    onnx.save_model(two_products(), str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TREADLE_CACHE", str(folder))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    return folder


def images(cache: Path) -> list[Path]:
    """The files of the cache that hold the weights."""
    return [file for file in cache.rglob("*") if file.is_file() and file.stat().st_size > WIDTH * WIDTH * 4]


def result(session: treadle.Session) -> np.ndarray[Any, Any]:
    (y,) = session.run({"x": X}).values()
    return y


@pytest.mark.usefixtures("cache")
def test_weights_that_are_cut_while_a_model_loads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, and the whole file can be loaded afterwards."""
    whole = (path.parent / "weights.bin").read_bytes()
    read = reader.External.read

    def cutting(self: reader.External, location: str, *args: Any) -> bytes | memoryview:
        content = read(self, location, *args)
        os.truncate(path.parent / "weights.bin", 4096)
        return content

    with monkeypatch.context() as patched:
        patched.setattr(reader.External, "read", cutting)
        with pytest.raises(ModelError, match=r"weights\.bin|was changed"):
            treadle.Session(path)
    (path.parent / "weights.bin").write_bytes(whole)
    assert np.isfinite(result(treadle.Session(path))).all()


@pytest.mark.usefixtures("cache")
def test_a_model_that_is_cut_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "whole.onnx"
    onnx.save_model(two_products(), str(path))
    split = reader.split

    def cutting(content: memoryview) -> Any:
        os.truncate(path, 100)
        return split(content)

    monkeypatch.setattr(reader, "split", cutting)
    with pytest.raises(ModelError):
        treadle.Session(path)


def test_a_stored_form_that_is_cut_between_runs(path: Path, cache: Path) -> None:
    """Runs fail until its sessions are gone; then the model is compiled again."""
    expected = result(treadle.Session(path))
    session = treadle.Session(path)
    assert session.compiles == 0
    for image in images(cache):
        os.truncate(image, 0)
    for _ in range(2):
        with pytest.raises(RunError, match="cache folder was cut by another program"):
            result(session)
    del session
    np.testing.assert_array_equal(result(treadle.Session(path)), expected)


def test_a_new_session_does_not_take_the_weights_of_a_cut_one(path: Path, cache: Path) -> None:
    session = treadle.Session(path)
    expected = result(session)
    for image in images(cache):
        os.truncate(image, 0)
    with pytest.raises(RunError):
        result(session)
    fresh = treadle.Session(path)
    with pytest.raises(RunError):
        result(fresh)  # the old one still has its file mapped
    del session
    np.testing.assert_array_equal(result(fresh), expected)


def test_files_that_are_cut_at_any_moment(path: Path, cache: Path) -> None:
    """A session of cut files either has the right results or fails with a typed error."""
    weights = path.parent / "weights.bin"
    whole = weights.read_bytes()
    expected = result(treadle.Session(path))
    rng = np.random.default_rng(7)
    for attempt in range(30):
        if attempt % 2:
            for file in images(cache):
                file.unlink()

        def cut(delay: float = float(rng.uniform(0, 0.06)), size: int = int(rng.integers(0, len(whole)))) -> None:
            time.sleep(delay)  # no event: any moment of the load and the run is one to cut at
            for file in (weights, *images(cache)):
                try:
                    os.truncate(file, size)
                except FileNotFoundError:
                    continue

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            np.testing.assert_array_equal(result(treadle.Session(path)), expected)
        except TreadleError:
            pass
        finally:
            cutter.join()
            weights.write_bytes(whole)
            for file in images(cache):
                file.unlink()
    np.testing.assert_array_equal(result(treadle.Session(path)), expected)
