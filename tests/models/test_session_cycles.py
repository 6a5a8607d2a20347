"""Sessions release their threads, memory and files. `scripts/stress` does the same ten thousand times."""

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
    Makes and drops 200 sessions while two clients run another one: threads and memory return to their base.
    """
    subprocess.run([sys.executable, "-m", "tests.models.cycles", "200"], check=True, timeout=100)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in Linux's /proc")
def test_sessions_of_one_file_share_its_descriptors(tmp_path: Path) -> None:
    """
    A thousand sessions of one model share descriptors; the file is closed once all of them are gone.
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


def test_a_file_that_was_written_again_is_another_model(tmp_path: Path) -> None:
    """
    A session keeps the model that it read; one made after the file changed has the new model.
    """
    path = tmp_path / "model.onnx"
    onnx.save(small.add(shape=("n",)), path)
    old = treadle.Session(path)
    onnx.save(small.add(shape=("n", 3)), tmp_path / "new.onnx")
    (tmp_path / "new.onnx").rename(path)

    assert [tensor.shape for tensor in old.inputs] == [("n",), ("n",)]
    assert [tensor.shape for tensor in treadle.Session(path).inputs] == [("n", 3), ("n", 3)]


def descriptors(folder: Path) -> int:
    """Returns how many files in `folder` this process has open."""
    names = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(name.is_relative_to(folder) for name in names)
