"""Assignment targets other than names: `a.b` and `d["k"]`, which rewritten functions set and read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treadle.compat.tensorflow.liveness import SCOPES


@dataclass(frozen=True, slots=True)
class Targets:
    """Attributes and items that statements assign, by their source."""

    all: tuple[str, ...]

    @staticmethod
    def of(nodes: Sequence[ast.AST], names: Sequence[str]) -> Targets:
        """Return the targets in `nodes` whose object does not depend on `names`, which the nodes assign."""
        found = [ast.unparse(node) for node in _assigned_nodes(nodes) if _is_constant_path(node, frozenset(names))]
        return Targets(tuple(dict.fromkeys(found)))

    @property
    def names(self) -> list[str]:
        """The parameters that stand for the values of the targets in helpers."""
        return [f"__treadle_target{number}" for number in range(len(self.all))]

    def set(self) -> list[ast.stmt]:
        """Return statements that assign each target its value, or delete it if it is undefined."""
        return [
            stated
            for target, name in zip(self.all, self.names, strict=True)
            for stated in ast.parse(
                f"if {name} is not __treadle_undefined: {target} = {name}\n"
                f"elif __treadle_value_or_undefined(lambda: {target}) is not __treadle_undefined: del {target}"
            ).body
        ]

    def values(self, names: Sequence[str]) -> ast.expr:
        """Return the tuple of the values of names and targets, `undefined` for those without one."""
        reads = ", ".join(f"__treadle_value_or_undefined(lambda: {target})" for target in (*names, *self.all))
        return ast.parse(f"({reads},)" if reads else "()", mode="eval").body


def _assigned_nodes(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            yield node
        if not isinstance(node, SCOPES):
            yield from _assigned_nodes(list(ast.iter_child_nodes(node)))


def _is_constant_path(node: ast.AST, changed: frozenset[str]) -> bool:
    """Return whether a target denotes the same location throughout."""
    if isinstance(node, ast.Name):
        return node.id not in changed
    if isinstance(node, ast.Attribute):
        return _is_constant_path(node.value, changed)
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and _is_constant_path(node.value, changed)
    )
