"""Liveness: which names are read after each `if` and loop of a function (see `autograph`).

A name that a statement over a tensor assigns and that nothing reads afterwards is local to the statement: it needs
neither a value in every branch nor to be a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.While, ast.For)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Live = frozenset[str]
"""Names that are read before they are assigned."""

_NOTHING: Live = frozenset()


def own_nodes(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield these nodes and their descendants, except those inside functions, classes and comprehensions."""
    for node in nodes:
        yield node
        if not isinstance(node, (*SCOPES, *_COMPREHENSIONS)):
            yield from own_nodes(list(ast.iter_child_nodes(node)))


def assigned(nodes: Sequence[ast.AST]) -> list[str]:
    """Return the names that statements assign or delete, in order."""
    found: dict[str, None] = {}
    for node in own_nodes(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) or (isinstance(node, ast.ExceptHandler) and node.name):
            found[str(node.name)] = None
        elif isinstance(node, ast.alias):
            found[node.asname or node.name.partition(".")[0]] = None
    return [name for name in found if not name.startswith("__treadle")]


def read_by_inner_scopes(
    nodes: Sequence[ast.AST], kinds: tuple[type[ast.AST], ...] = (*SCOPES, *_COMPREHENSIONS)
) -> Live:
    """Return the names that functions, classes and comprehensions inside these nodes read from around them."""
    return _NOTHING.union(*(_free(inner) for inner in own_nodes(nodes) if isinstance(inner, kinds)))


def mark(body: Sequence[ast.stmt]) -> None:
    """Annotate the `if`s and loops of a function with the names read after them or by the next iteration."""
    _Flow().block(body, _NOTHING)
    _mark_closures(body, _NOTHING)


@dataclass(slots=True)
class _Flow:
    """The names that are live where jumps lead."""

    loops: list[tuple[Live, Live]] = field(default_factory=list)
    """For each loop around a statement: what is live after it, and at its next iteration."""
    caught: Live = _NOTHING
    """What is live in the handlers of the `try` statements around a statement."""

    def block(self, statements: Sequence[ast.stmt], after: Live) -> Live:
        """Return what is live before the statements, given what is live after them."""
        for statement in reversed(statements):
            after = self._before(statement, after | self.caught) | self.caught
        return after

    def _before(self, node: ast.stmt, after: Live) -> Live:
        if isinstance(node, ast.If):
            node.treadle_live = after  # type: ignore[attr-defined]
            return reads(node.test) | self.block(node.body, after) | self.block(node.orelse, after)
        if isinstance(node, LOOPS):
            return self._loop(node, after)
        if isinstance(node, (ast.Try, ast.TryStar)):
            return self._try(node, after)
        if isinstance(node, ast.With):
            bound = assigned([item.optional_vars for item in node.items if item.optional_vars])
            return (self.block(node.body, after) - set(bound)) | _reads_of(node.items)
        if isinstance(node, (ast.Break, ast.Continue)) and self.loops:
            return self.loops[-1][isinstance(node, ast.Continue)]
        goes_on = not isinstance(node, (ast.Return, ast.Raise))
        return ((after - _set_by(node)) if goes_on else _NOTHING) | reads(node)

    def _loop(self, node: ast.While | ast.For, after: Live) -> Live:
        ends = self.block(node.orelse, after) | frozenset(getattr(node, "treadle_stops", ()))
        given = _NOTHING if isinstance(node, ast.While) else frozenset(assigned([node.target]))
        each = reads(node.test if isinstance(node, ast.While) else node.target)
        live = ends | each
        while True:
            self.loops.append((after, live))
            found = live | (self.block(node.body, live) - given)
            self.loops.pop()
            if found == live:
                break
            live = found
        node.treadle_live = live  # type: ignore[union-attr]
        return live | (_NOTHING if isinstance(node, ast.While) else reads(node.iter))

    def _try(self, node: ast.Try | ast.TryStar, after: Live) -> Live:
        around = self.caught
        last = self.block(node.finalbody, after)
        self.caught = around | last if node.finalbody else around
        handled = [
            (self.block(each.body, last) - {each.name or ""}) | _reads_of([each.type] if each.type else [])
            for each in node.handlers
        ]
        after_body = self.block(node.orelse, last)
        self.caught = self.caught.union(*handled)
        before = self.block(node.body, after_body)
        self.caught = around
        return before


def _set_by(node: ast.stmt) -> Live:
    """Return the names that a simple statement always assigns."""
    if isinstance(node, ast.Delete) or (isinstance(node, ast.AnnAssign) and node.value is None):
        return _NOTHING
    return frozenset(assigned([node]))


def reads(node: ast.AST) -> Live:
    """Return the names that a node reads or updates, including those that inner functions read."""
    if isinstance(node, (*SCOPES, *_COMPREHENSIONS)):
        return _free(node)
    found = _reads_of(ast.iter_child_nodes(node))
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        return found | {node.id}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return found | {node.target.id}
    return found


def _reads_of(nodes: Iterator[ast.AST] | Sequence[ast.AST]) -> Live:
    return _NOTHING.union(*map(reads, nodes))


def _free(scope: ast.AST) -> Live:
    """Return the names of the enclosing scope that a function, class or comprehension reads."""
    inside = list(ast.iter_child_nodes(scope))
    if isinstance(scope, _COMPREHENSIONS):
        return (_reads_of(inside) - set(assigned(inside))) | reads(scope.generators[0].iter)
    if isinstance(scope, ast.ClassDef):
        return _reads_of(inside)
    assert isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    body = scope.body if isinstance(scope.body, list) else [scope.body]
    given = {inner.arg for inner in ast.walk(scope.args) if isinstance(inner, ast.arg)}
    outside = [*scope.args.defaults, *(d for d in scope.args.kw_defaults if d), *getattr(scope, "decorator_list", ())]
    return (_reads_of(body) - given - set(assigned(body))) | _reads_of(outside)


def _mark_closures(statements: Sequence[ast.stmt], kept: Live) -> Live:
    """Mark as live what functions defined before a statement read, since they may be called after it.

    Returns these names.
    """
    for node in statements:
        if isinstance(node, LOOPS):
            kept |= read_by_inner_scopes([node], SCOPES)
        if isinstance(node, (ast.If, *LOOPS)):
            node.treadle_live |= kept  # type: ignore[union-attr]
        if not isinstance(node, SCOPES):
            for block in _blocks(node):
                _mark_closures(block, kept)
        kept |= read_by_inner_scopes([node], SCOPES)
    return kept


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for handler in getattr(node, "handlers", ()):
        yield handler.body
