"""The generated table of the guide."""

from __future__ import annotations

import runpy

from tests.packaging.sources import ROOT


def test_the_table_of_the_guide_is_current() -> None:
    """
    `scripts/docs` would not change it.
    """
    guide = (ROOT / "docs" / "guide" / "tensorflow.md").read_text(encoding="utf-8")
    writer = runpy.run_path(str(ROOT / "docs" / "tensorflow_table.py"))

    assert writer["with_table"](guide) == guide
