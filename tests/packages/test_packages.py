"""Packages that use onnxruntime give the same answers on treadle, without a change of theirs.

`scripts/test_packages` installs them; each brings its models, or the program trains or makes them. `known` has licences
and versions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.packages.known import PACKAGES, is_installed

DRIVER = str(Path(__file__).parent / "programs" / "driver.py")


def run(*command: str) -> tuple[list[tuple[str, float]], dict[str, Any]]:
    """The answers that a program prints, and its last figures; it may use treadle only if it is told to."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=900, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    ready = next(line for line in lines if line.startswith('{"answers"'))
    return [(text, score) for text, score in json.loads(ready)["answers"]], json.loads(lines[-1])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", PACKAGES)
def test_answers_are_the_same(program: str) -> None:
    package = PACKAGES[program]
    if not is_installed(package.module):
        pytest.skip(f"{package.name} is not installed (scripts/test_packages installs it)")
    name, wanted_version = package.name.split()
    assert version(name) == wanted_version
    wanted, _ = run(DRIVER, program)
    found, figures = run("-m", "treadle.ort", "--strict", DRIVER, program)
    assert wanted
    assert [text for text, _ in found] == [text for text, _ in wanted]
    for (text, got), (_, score) in zip(found, wanted, strict=True):
        assert abs(got - score) <= package.tolerance, text
    assert figures["steps"], "treadle ran it"
    assert set(figures["steps_in_python"]) == package.in_python
    assert figures["own_threads"] <= len(os.sched_getaffinity(0)), "one team, whatever the number of sessions"
