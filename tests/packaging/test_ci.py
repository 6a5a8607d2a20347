"""CI runs each test on every instruction set that it takes."""

from __future__ import annotations

import re

from tests.packaging.sources import ROOT


def test_what_takes_an_instruction_set_runs_as_the_other_machines() -> None:
    """
    The suite runs with --best-isa there, which leaves what else takes the fixture `target` to scripts/test_machines.
    """
    (command,) = re.findall(r"test_machines --others -- ([^\"]*)", (ROOT / ".ci/beside").read_text(encoding="utf-8"))
    covered = [ROOT / path for path in re.findall(r"tests/\S+", command)]
    takes = re.compile(r"def test_\w+\([^)]*\btarget\b")
    taking = [path for path in (ROOT / "tests").rglob("test_*.py") if takes.search(path.read_text(encoding="utf-8"))]

    assert len(taking) > 30
    assert [path for path in taking if not any(path.is_relative_to(each) for each in covered)] == []
