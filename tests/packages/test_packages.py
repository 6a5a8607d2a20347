"""Packages that use onnxruntime give the same answers on treadle, without a change of theirs.

magika 1.0.3 (Apache-2.0) finds the kind of a content, rapidocr-onnxruntime 1.4.4 (Apache-2.0) reads text in images.
Both bring models. `scripts/test_packages` installs them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

PACKAGES = {
    "rapidocr_lines": ("rapidocr_onnxruntime", 1e-4),
    # onnxruntime's own scores are 1.5e-3 from those of the model in float64, treadle's 6e-6: variances by differences
    "magika_labels": ("magika", 2e-3),
}
"""Program -> the package that it needs, and how far its scores may be from those with onnxruntime."""


def answers(*command: str) -> list[tuple[str, float]]:
    """The answers that a program prints; it may use treadle only if it is told to."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [(text, score) for text, score in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PACKAGES)
def test_answers_are_the_same(program: str) -> None:
    package, tolerance = PACKAGES[program]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed (scripts/test_packages uses it)")
    path = str(PROGRAMS / f"{program}.py")
    wanted, found = answers(path), answers("-m", "treadle.ort", "--strict", path)
    assert [text for text, _ in found] == [text for text, _ in wanted]
    for (text, got), (_, score) in zip(found, wanted, strict=True):
        assert abs(got - score) <= tolerance, text
