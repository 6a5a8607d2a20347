"""Programs as users of TensorFlow and PyTorch write them: run from beginning to end, results checked against NumPy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LOOPS = 20_000

CHECKS = {
    "python_loops": f"""
assert found["results"] == [2.0 * (np.arange({LOOPS}) % 7).sum()] * 10
""",
    "config_and_session": """
product = found["left"].astype(np.float64) @ found["right"].astype(np.float64)
rows, columns, total = found["results"]
np.testing.assert_allclose(rows, product.sum(1), rtol=1e-4, atol=1e-3)
np.testing.assert_allclose(columns, product.sum(0), rtol=1e-4, atol=1e-3)
np.testing.assert_allclose(total, 2 * product.sum(), rtol=1e-4, atol=1e-2)
assert (treadle.threads.get().intra_op, treadle.threads.get().inter_op) == (2, 2)
""",
    "fork_wait": """
x, w_y, w_z = (t.numpy().astype(np.float64) for t in (found["x"], found["model"].w_y, found["model"].w_z))
np.testing.assert_allclose(found["result"].numpy(), x @ w_y + x @ w_z, rtol=1e-4)
""",
}
"""What must be so when a program has ended; `found` are its names."""


def run(name: str, before: str = "") -> str:
    """What the program prints."""
    text = f"""
import runpy, sys
import numpy as np
import treadle
sys.argv = [{name!r}, "{LOOPS}"]
{before}
found = runpy.run_path({str(HERE / f"{name}.py")!r}, run_name="__main__")
{CHECKS[name]}
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CHECKS)
def test_programs_match_numpy(name: str) -> None:
    """
    Each program runs in a process of its own, without warnings.
    """
    assert run(name)


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_settings_may_change_between_runs(executor: str) -> None:
    """
    Ten times, also with Python functions in worker processes; TensorFlow raises at the second.
    """
    printed = run("python_loops", f"treadle.python_ops(executor={executor!r})")

    assert (
        len(re.findall(rf"^\w+( \d)? +\d+\.\d+ s  {2 * sum(i % 7 for i in range(LOOPS))}$", printed, re.MULTILINE))
        == 10
    )


@pytest.mark.parametrize("name", CHECKS)
def test_only_the_import_line_names_treadle(name: str) -> None:
    """
    The rest is what a program for TensorFlow or PyTorch has.
    """
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)]
    ours = [alias.name for node in imports for alias in node.names if alias.name.startswith("treadle")]

    assert len(ours) == 1
    assert text.count("treadle") == 1
