"""The classes of the scheduler stay small enough to be understood as one thing each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.sources import ROOT

MOST_FUNCTIONS = 25
SCHEDULER = (
    "Scheduler",
    "Slots",
    "RunRegistry",
    "IdleWorkers",
    "ThreadPool",
    "WorkerChooser",
    "Dispatcher",
    "Executor",
    "WorkerLoop",
)
_FUNCTION = re.compile(r"([~\w]+)\s*\([^;{}]*?\)(?!\s*\()[^;{}()]*(?:;|\{\})")


def classes(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields the classes of a header and the functions that they declare, without constructors and destructors."""
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    for found in re.finditer(r"^(?:class|struct) (\w+)[^;{}()]*\{(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        name, body = found.group(1), found.group(2)
        while (shorter := re.sub(r"\{[^{}]+\}", "{}", body)) != body:
            body = shorter
        body = re.sub(r"[^;{}]*= delete;", "", body)
        yield name, [each for each in _FUNCTION.findall(body) if each not in (name, f"~{name}")]


def test_no_class_of_the_scheduler_has_more_than_25_functions() -> None:
    """
    One that outgrows them is split by what it is about (docs/adr/0035-parts-of-the-scheduler.md).
    """
    found = dict(each for path in (ROOT / "native/include/treadle").glob("*.h") for each in classes(path))

    assert "take_permit" in found["Slots"]
    assert "dispatch" in found["Dispatcher"]
    assert {name: len(found[name]) for name in SCHEDULER if len(found[name]) > MOST_FUNCTIONS} == {}
