"""RapidOCR's own tests end on treadle as they do on onnxruntime, each of them.

They are not part of its distribution: `RAPIDOCR_TESTS=FOLDER scripts/test_packages -k suite` names the folder `python`
of a checkout (github.com/RapidAI/RapidOCR, Apache-2.0). Its models are those of the installed package; tests that
download others, or need other engines, fail both times where there is no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.packages.known import is_installed

FOLDER = os.environ.get("RAPIDOCR_TESTS")


def outcomes(folder: Path, *way: str) -> dict[str, str]:
    """How each test of `folder` ends: passed, or the tag that the report has for it."""
    report = folder / "report.xml"
    options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", f"--junitxml={report}", "tests")
    command = [sys.executable, *way, "-m", "pytest", *options]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=3600, check=False, stdin=subprocess.DEVNULL)
    found = {}
    for case in ET.parse(report).iter("testcase"):
        bad = [tag for tag in ("failure", "error", "skipped") if case.find(tag) is not None]
        found[f"{case.get('classname')} {case.get('name')}"] = bad[0] if bad else "passed"
    return found


@pytest.mark.timeout(7200)
def test_the_suite_ends_as_on_onnxruntime(tmp_path: Path) -> None:
    spec = find_spec("rapidocr") if FOLDER is not None and is_installed("rapidocr") else None
    if FOLDER is None or spec is None or spec.origin is None:
        pytest.skip("needs RAPIDOCR_TESTS and rapidocr")
    shutil.copytree(FOLDER, tmp_path / "python")
    for model in (Path(spec.origin).parent / "models").glob("*.onnx"):
        shutil.copy(model, tmp_path / "python" / "rapidocr" / "models")

    wanted = outcomes(tmp_path / "python")
    found = outcomes(tmp_path / "python", "-m", "treadle.ort", "--strict")

    assert sum(way == "passed" for way in wanted.values()) > 50, "those that need no download"
    assert found == wanted
