"""A process whose address space is limited: a typed error wherever memory ends while a model is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.models import small

PROGRAM = """
import resource, sys
from pathlib import Path
import numpy as np, treadle, treadle.errors

has = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (has + (int(sys.argv[2]) << 20),) * 2)
try:
    session = treadle.Session(sys.argv[1])
    session.run({"x": np.ones((16, 64), np.float32)})
except treadle.errors.MemoryLimitError as error:
    print(error)
"""


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
