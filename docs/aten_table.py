"""Writes the list of ATen ops that have rules into the guide. Run by `scripts/docs`; PyTorch need not be installed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "src" / "treadle" / "frontends" / "torch" / "table.py"
BEGIN, END = "<!-- ops: written by scripts/docs -->\n", "<!-- end of ops -->\n"


def names() -> list[str]:
    """Returns the ops of the front end's table, each once, without overloads."""
    for node in ast.walk(ast.parse(TABLE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "RULES":
            assert isinstance(node.value, ast.Dict)
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            return sorted({str(key).partition(".")[0] for key in keys})
    raise ValueError(f"{TABLE} has no table of rules")


def with_ops(text: str) -> str:
    """Returns the guide with the current list. Raises ValueError if its place is not marked."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the guide must mark the place of the list with {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}{' '.join(f'`{name}`' for name in names())}\n{END}{after}"


if __name__ == "__main__":
    guide = Path(sys.argv[1])
    guide.write_text(with_ops(guide.read_text(encoding="utf-8")), encoding="utf-8")
