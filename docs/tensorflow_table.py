"""Writes the table of what `treadle.compat.tensorflow` offers into the guide. Run by `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from treadle.compat.tensorflow import names
from treadle.compat.tensorflow.table import OPS
from treadle.frontends.tensorflow.nodes import NODES, STRUCTURE

BEGIN, END = "<!-- table: written by scripts/docs -->\n", "<!-- end of table -->\n"


def listed(found: list[str]) -> str:
    """Names as code."""
    return " ".join(f"`{name}`" for name in found)


def rows() -> list[tuple[str, str]]:
    """Each namespace and its names, the notes of ops that do not offer everything, and the ops of files."""
    plain: dict[str, list[str]] = {}
    for name in names.BOTH:
        space, _, last = f"tf.{name}".rpartition(".")
        plain.setdefault(space, []).append(last)
    plain["tf.compat.v1 (and tf)"] = list(names.V1)
    table = [(f"`{space}`", listed(sorted(found))) for space, found in sorted(plain.items())]
    notes = [f"`{op.name}`: {op.note}" for op in OPS.values() if op.note]
    return [*table, ("notes", "; ".join(notes)), ("ops of frozen graphs", listed(sorted([*NODES, *STRUCTURE])))]


def with_table(text: str) -> str:
    """The guide with the table as it should be. Raises ValueError if its place is not marked."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the guide must mark the place of the table with {BEGIN!r} and {END!r}")
    lines = ["| where | what there is |", "| --- | --- |", *(f"| {label} | {found} |" for label, found in rows())]
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


if __name__ == "__main__":
    guide = Path(sys.argv[1])
    guide.write_text(with_table(guide.read_text(encoding="utf-8")), encoding="utf-8")
