"""Writes the table of the names of `treadle.compat.torch` into the guide. Run by `scripts/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from treadle.compat import torch

BEGIN, END = "<!-- table: written by scripts/docs -->\n", "<!-- end of table -->\n"


def rows() -> list[tuple[str, list[str]]]:
    """Returns the label of each row of the table, and its names."""
    parts = [("`torch`", torch), ("`torch.nn`", torch.nn), ("`torch.nn.functional`", torch.nn.functional)]
    tensor = [name for name in dir(torch.tensor(0)) if not name.startswith("_")]
    named = [(label, list(dir(part))) for label, part in parts]
    return [*named, ("`torch.jit`", list(dir(torch.jit))), ("methods of tensors", tensor)]


def with_table(text: str) -> str:
    """Returns the guide with the current table. Raises ValueError if its place is not marked."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the guide must mark the place of the table with {BEGIN!r} and {END!r}")
    lines = ["| module | names |", "| --- | --- |"]
    lines += [f"| {label} | {' '.join(f'`{name}`' for name in names)} |" for label, names in rows()]
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


if __name__ == "__main__":
    guide = Path(sys.argv[1])
    guide.write_text(with_table(guide.read_text(encoding="utf-8")), encoding="utf-8")
