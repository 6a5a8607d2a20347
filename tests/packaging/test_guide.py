"""The guide speaks of what there is."""

from __future__ import annotations

import inspect
import re

import pytest

import weft
from tests.packaging.sources import ROOT
from weft import knobs
from weft.runtime.report import VARIABLES

PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
CALL = re.compile(r"`?weft\.((?:threads\.)?[A-Za-z_]+)\(([^()]*)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_call_in_the_guide_exists_with_its_arguments(page) -> None:
    """
    `weft.name(keyword=...)` names something callable that takes the keyword.
    """
    for name, arguments in CALL.findall(page.read_text(encoding="utf-8")):
        found = weft
        for part in name.split("."):
            found = getattr(found, part)
        keywords = re.findall(r"(\w+)=", arguments)
        parameters = inspect.signature(found).parameters if keywords else {}
        for keyword in keywords:
            assert keyword in parameters, f"{page.name}: weft.{name} takes no {keyword}="


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_in_the_guide_is_read(page) -> None:
    """
    WEFT_* names are knobs or thread settings.
    """
    named = set(re.findall(r"\bWEFT_[A-Z_]+\b", page.read_text(encoding="utf-8")))

    assert named <= {*knobs.KNOBS, *VARIABLES}
