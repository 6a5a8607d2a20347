"""RapidOCR's own tests pass on treadle wherever they pass on onnxruntime.

They are not part of its distribution: `RAPIDOCR_TESTS=FOLDER scripts/test_packages -k suite` names the folder `python`
of a checkout (github.com/RapidAI/RapidOCR, Apache-2.0). Tests that download models need the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.packages.known import is_installed

FOLDER = os.environ.get("RAPIDOCR_TESTS")


def passed(folder: Path, *way: str) -> set[str]:
    """The tests of `folder` that pass."""
    report = folder / "report.xml"
    options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", f"--junitxml={report}", "tests")
    command = [sys.executable, *way, "-m", "pytest", *options]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=3600, check=False, stdin=subprocess.DEVNULL)
    cases = ET.parse(report).iter("testcase")
    bad = ("failure", "error", "skipped")
    return {f"{case.get('classname')} {case.get('name')}" for case in cases if not any(map(case.findall, bad))}


@pytest.mark.timeout(7200)
def test_the_suite_passes_as_on_onnxruntime(tmp_path: Path) -> None:
    if FOLDER is None or not is_installed("rapidocr"):
        pytest.skip("needs RAPIDOCR_TESTS and rapidocr")
    shutil.copytree(Path(FOLDER) / "tests", tmp_path / "tests")
    wanted = passed(tmp_path)
    assert wanted
    assert passed(tmp_path, "-m", "treadle.ort", "--strict") >= wanted
