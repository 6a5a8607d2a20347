"""Where the sources are, for tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "treadle"


@cache
def modules(folder: Path = PACKAGE) -> dict[str, tuple[ast.Import | ast.ImportFrom, ...]]:
    """Maps the dotted name of each module of the package in `folder` to its import statements, also those inside of
    functions; without those for type checkers alone and relative ones. Each file is parsed once a process."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = tuple(_statements(ast.parse(path.read_text(encoding="utf-8"), str(path))))
    return found


def imports(statements: tuple[ast.Import | ast.ImportFrom, ...]) -> Iterator[str]:
    """Yields each name that `statements` import: of `from a import b` both `a.b` and `a`."""
    for statement in statements:
        yield from _names(statement)
        if isinstance(statement, ast.ImportFrom):
            yield str(statement.module)


def dependencies(statements: tuple[ast.Import | ast.ImportFrom, ...], known: Container[str]) -> set[str]:
    """Returns the modules of `known` that are imported: of `from a import b` it is `a.b` if that is a module."""
    names = {name for statement in statements for name in _names(statement)}
    return {owner for name in names for owner in [name if name in known else name.rpartition(".")[0]] if owner in known}


def _statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yields the imports in the blocks of `node`. Only statements are looked at, as expressions have none."""
    if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module and not node.level):
        yield node
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(node, field, ())
        if isinstance(inner, list) and not (field == "body" and _for_type_checkers(node)):
            for each in inner:
                yield from _statements(each)


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _names(statement: ast.Import | ast.ImportFrom) -> list[str]:
    prefix = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
    return [f"{prefix}{alias.name}" for alias in statement.names]
