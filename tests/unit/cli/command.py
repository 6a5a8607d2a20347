"""Runs of the command line: in this process, where imports and kernels are there already, or in one of their own."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from treadle.cli.main import main


def treadle(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in this process."""
    with redirect_stdout(io.StringIO()) as stdout, redirect_stderr(io.StringIO()) as stderr:
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def treadle_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own; `options` are those of `subprocess.run`."""
    return subprocess.run(
        [sys.executable, "-m", "treadle", *arguments], capture_output=True, text=True, check=False, **options
    )
