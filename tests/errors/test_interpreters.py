"""Interpreters of a process beside its main one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

MODULE = next((name for name in ("_interpreters", "_xxsubinterpreters") if importlib.util.find_spec(name)), None)


@pytest.mark.skipif(MODULE is None, reason="this Python makes no interpreters")
def test_a_sub_interpreter_is_refused():
    """
    A run there could not enter the interpreter from its workers: importing the core says so, and what to use.
    """
    inside = "try:\n import treadle._native\nexcept ImportError as error:\n print(error, flush=True)"
    text = f"import {MODULE} as made\nother = made.create()\nmade.run_string(other, {inside!r})\nmade.destroy(other)"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "sub-interpreter" in ended.stdout
