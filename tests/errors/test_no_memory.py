"""A process whose address space is limited: a typed error wherever memory ends while a model is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.models import small

PROGRAM = """
import sys
import numpy as np, treadle, treadle.errors
from tests.limited_memory import limit_memory

limit_memory(int(sys.argv[2]) << 20)
try:
    session = treadle.Session(sys.argv[1])
    session.run({"x": np.ones((16, 64), np.float32)})
except treadle.errors.MemoryLimitError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a process")
@pytest.mark.parametrize("megabytes", [2, 8, 16, 30, 60, 150, 250, 330, 390])
def test_a_model_that_finds_no_memory_is_refused(
    megabytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While modules and libraries are loaded, and while kernels are compiled."""
    path = tmp_path / "model.onnx"
    onnx.save_model(small.branches(), str(path))
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(megabytes)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert megabytes > 300 or "there is no memory to" in found.stdout
