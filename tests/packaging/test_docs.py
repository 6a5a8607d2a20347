"""The documents for developers match the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.sources import PACKAGE, ROOT

CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+/[\w./<>*-]*")
ROOTS = (ROOT, PACKAGE)


def exists(path: str, folder: Path) -> bool:
    """Whether `path`, with or without ".py", is in `folder`; a name with "<...>" or "*" stands for any name."""
    known = re.split(r"[<*]", path)[0].rpartition("/")[0] if re.search(r"[<*]", path) else path
    return any((folder / f"{known}{suffix}").exists() for suffix in ("", ".py"))


def sections(text: str) -> list[tuple[str, str]]:
    """Returns each folder of ARCHITECTURE's code map with its section."""
    return re.findall(r"^### `([^`]+)`\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "native/README.md"])
def test_every_path_that_a_document_names_exists(name: str) -> None:
    """
    A path is relative to the repository or to the package.
    """
    text = re.sub(r"\]\([^)]*\)", "", (ROOT / name).read_text(encoding="utf-8"))
    paths = [path for path in CODE.findall(text) if PATH.fullmatch(path)]

    roots = (*ROOTS, (ROOT / name).parent)
    assert paths
    assert [path for path in paths if not any(exists(path, root) for root in roots)] == []


def test_every_module_in_the_code_map_exists() -> None:
    """
    The names of a list are modules of the section's folder, or of the folder that the item begins with.
    """
    missing = []
    folders = set()
    for title, body in sections((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")):
        folders.add(title)
        for item in re.findall(r"^- .*(?:\n  .*)*", body, re.MULTILINE):
            names = [name for name in CODE.findall(item) if re.fullmatch(r"[a-z_0-9]+", name)]
            homes = [ROOT / title, ROOT / title / names[0]]
            missing += [f"{title}{name}" for name in names if not any(exists(name, home) for home in homes)]

    packages = {f"src/treadle/{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert missing == []
    assert folders == packages | {"src/treadle/", "native/"}


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda page: page.stem)
def test_decisions_are_short(page: Path) -> None:
    """
    A decision has a context, a decision and consequences in at most 60 lines; figures are in docs/measurements.
    """
    text = page.read_text(encoding="utf-8")

    assert text.count("\n") <= 60
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "measurements").glob("*.md")), ids=lambda page: page.stem)
def test_measurements_say_where_when_and_how(page: Path) -> None:
    """
    Each page has a machine, a date and a command.
    """
    text = page.read_text(encoding="utf-8")

    assert page.stem == "index" or all(f"| {fact} |" in text for fact in ("machine", "date", "command")), page.name
