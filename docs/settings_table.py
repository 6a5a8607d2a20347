"""Writes the table of environment variables that are not about threads into the guide. Run by `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from treadle.knobs import KNOBS

BEGIN, END = "<!-- table: written by scripts/docs -->\n", "<!-- end of table -->\n"


def with_table(text: str) -> str:
    """The guide with the table as it should be. Raises ValueError if its place is not marked."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the guide must mark the place of the table with {BEGIN!r} and {END!r}")
    lines = ["| variable | value | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{knob.name}` | {knob.wanted} | {'' if knob.default is None else knob.default} | {knob.doc} |"
        for knob in KNOBS.values()
    ]
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


if __name__ == "__main__":
    guide = Path(sys.argv[1])
    guide.write_text(with_table(guide.read_text(encoding="utf-8")), encoding="utf-8")
