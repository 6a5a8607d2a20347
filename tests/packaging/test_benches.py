"""Declarations of benchmarks name what exists."""

from __future__ import annotations

import re

import pytest
from benches.models.build import GROUPS
from benches.optimisations.table import OPTIMISATIONS, PACKAGE, Optimisation

from tests.packaging.sources import ROOT
from treadle.optimisations import OPTIMISATIONS as SWITCHES


@pytest.mark.parametrize("one", OPTIMISATIONS, ids=lambda one: one.name)
def test_an_optimisation_has_switches_files_and_models(one: Optimisation) -> None:
    """
    A renamed file would silently lower the lines of code that an optimisation must pay for.
    """
    names = one.without()["TREADLE_DISABLE"]
    files = [path for path in PACKAGE.rglob("*.py") if re.search(one.files, path.relative_to(PACKAGE).as_posix())]

    assert set(names.split(",")) <= SWITCHES.keys()
    assert len(files) >= len(one.files.split("|"))
    assert all(any(model in group for group in GROUPS.values()) for model in one.models)


def test_scripts_bench_names_every_benchmark() -> None:
    """
    Every folder of benches with a command can be started by its name, or stands in the guides.
    """
    script = (ROOT / "scripts" / "bench").read_text(encoding="utf-8")
    commands = {path.parent.name for path in (ROOT / "benches").glob("*/compare.py")}

    assert commands - set(re.findall(r"\w+", script)) == {"backends"}
