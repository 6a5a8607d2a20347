"""Files stay small enough to be read in one sitting."""

from __future__ import annotations

from pathlib import Path

from tests.packaging.sources import ROOT

MOST_LINES = 500
FOLDERS = ("src", "native", "tests", "benches", "examples")
SUFFIXES = {".py", ".pyi", ".h", ".cpp"}


def lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def test_no_file_has_more_than_500_lines() -> None:
    """
    A file that outgrows 500 lines is split by noun.
    """
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    long = {str(path.relative_to(ROOT)): lines(path) for path in files if lines(path) > MOST_LINES}

    assert not long


def test_no_file_is_named_for_nothing() -> None:
    """
    Names say what is inside; `utils` and its like say nothing.
    """
    empty_names = {"utils", "util", "helpers", "helper", "misc", "common", "core", "impl", "stuff"}
    stems = {path.stem for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES}

    assert not stems & empty_names
