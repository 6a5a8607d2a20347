"""Where the sources are, for tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "treadle"


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, ast.Module]]:
    """Yields each module of the package in `folder`: its dotted name and its syntax tree."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yields each module that `tree` imports, and whether it does so when it is itself imported.

    Imports for type checkers alone do not count; imports inside functions count as late ones.
    """
    late = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in _imports(tree):
        yield from ((name, id(node) not in late) for name in _names(node))
        if isinstance(node, ast.ImportFrom):
            yield str(node.module), id(node) not in late


def dependencies(tree: ast.Module, known: Container[str]) -> set[str]:
    """Returns the modules of `known` that `tree` imports anywhere: of `from a import b` it is `a.b` if that is a
    module."""
    names = {name for node in _imports(tree) for name in _names(node)}
    return {owner for name in names for owner in [name if name in known else name.rpartition(".")[0]] if owner in known}


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yields the import statements that do more than tell a type checker."""
    typing_only = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and isinstance(test.test, ast.Name) and test.test.id == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        absolute = isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module and not node.level)
        if absolute and id(node) not in typing_only:
            yield node


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [f"{prefix}{alias.name}" for alias in node.names]
