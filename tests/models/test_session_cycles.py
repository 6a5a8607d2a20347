"""Sessions come and go: what they took comes back. `scripts/stress` does it ten thousand times."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import treadle
from tests.models import small


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read from Linux's /proc")
def test_sessions_made_and_dropped_leave_nothing_behind() -> None:
    """
    Two hundred sessions while two clients keep running another: threads and memory are back to base.
    """
    subprocess.run([sys.executable, "-m", "tests.models.cycles", "200"], check=True, timeout=100)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in Linux's /proc")
def test_sessions_of_one_file_have_its_descriptors_together(tmp_path: Path) -> None:
    """
    A thousand sessions of a model are within what a process may open; all gone, the file is closed.
    """
    onnx.save(small.convolutional(), tmp_path / "model.onnx")
    before = descriptors(tmp_path)
    sessions = [treadle.Session(tmp_path / "model.onnx")]
    one = descriptors(tmp_path)
    sessions += [treadle.Session(tmp_path / "model.onnx") for _ in range(20)]

    assert (before, descriptors(tmp_path)) == (0, one)
    del sessions
    gc.collect()
    assert descriptors(tmp_path) == 0


def test_a_file_that_was_written_since_is_another_one(tmp_path: Path) -> None:
    """
    A session made before keeps what it read, one made after has the new model.
    """
    path = tmp_path / "model.onnx"
    onnx.save(small.add(shape=("n",)), path)
    old = treadle.Session(path)
    onnx.save(small.add(shape=("n", 3)), tmp_path / "new.onnx")
    (tmp_path / "new.onnx").rename(path)

    assert [tensor.shape for tensor in old.inputs] == [("n",), ("n",)]
    assert [tensor.shape for tensor in treadle.Session(path).inputs] == [("n", 3), ("n", 3)]


def descriptors(folder: Path) -> int:
    """How many files in `folder` this process has open."""
    names = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(name.is_relative_to(folder) for name in names)
