"""Packages that use onnxruntime give the same answers on treadle, without a change of theirs.

`scripts/test_packages` installs them; each brings its models, or the program trains them. `known` has licences and
versions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.packages.known import PACKAGES

DRIVER = str(Path(__file__).parent / "programs" / "driver.py")


def answers(*command: str) -> list[tuple[str, float]]:
    """The answers that a program prints; it may use treadle only if it is told to."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=900, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"answers"')]
    return [(text, score) for text, score in json.loads(lines[-1])["answers"]]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", PACKAGES)
def test_answers_are_the_same(program: str) -> None:
    package = PACKAGES[program]
    if find_spec(package.module) is None:
        pytest.skip(f"{package.name} is not installed (scripts/test_packages installs it)")
    name, wanted_version = package.name.split()
    assert version(name) == wanted_version
    wanted = answers(DRIVER, program)
    found = answers("-m", "treadle.ort", "--strict", DRIVER, program)
    assert wanted
    assert [text for text, _ in found] == [text for text, _ in wanted]
    for (text, got), (_, score) in zip(found, wanted, strict=True):
        assert abs(got - score) <= package.tolerance, text
